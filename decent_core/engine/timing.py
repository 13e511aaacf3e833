"""Time marks that are right for the device: the host's clock on the CPU, events in the stream on an accelerator."""

import time

import torch

Mark = float | torch.Event


class DeviceClock:
    """Marks points in the computation without stopping it; durations are read after `settle`."""

    def __init__(self, device: torch.device):
        self.on_cpu = device.type == "cpu"

    def mark(self) -> Mark:
        """Now, in the order of the computation."""
        if self.on_cpu:
            return time.perf_counter()
        event = torch.Event(enable_timing=True)
        event.record()
        return event

    def settle(self) -> None:
        """Wait until all marks so far have been passed."""
        if not self.on_cpu:
            torch.accelerator.synchronize()

    def seconds(self, start: Mark, end: Mark) -> float:
        """The time from one mark to another; both must have been passed."""
        if isinstance(start, float) and isinstance(end, float):
            return end - start
        assert not isinstance(start, float)
        assert not isinstance(end, float)
        return start.elapsed_time(end) / 1000
