"""A request to stop from outside: SIGTERM or SIGUSR1, as schedulers send them before they take the machine away."""

import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Whether a stop signal has arrived in this process since `listen`."""

    def __init__(self) -> None:
        self.name: str | None = None

    def listen(self) -> "StopRequest":
        """Catch the stop signals from now on, instead of dying of them."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._arrived)
        return self

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name

    def __bool__(self) -> bool:
        return self.name is not None
