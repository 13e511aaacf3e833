"""What all entry points share: calm output, one message for a user's mistake, key=value options."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import NoReturn, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from decent_core.config.validation import validated
from decent_core.records.provenance import ROOT

OURS = ("decent_core", "tasks", "scripts")
QUIET = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",  # forked data workers warn otherwise
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
for _name, _setting in QUIET.items():  # now: torch and transformers read them when they are imported
    os.environ.setdefault(_name, _setting)
Options = TypeVar("Options")


def run_main(main: Callable[[list[str]], int | None], at_once: bool = False) -> None:
    """Run an entry point with the command line's arguments and exit with its status.

    A ValueError or FileNotFoundError raised by our own code is the user's mistake: its message alone goes to standard
    error, with status 2. Ctrl-C gives 130. Anything else is a bug and keeps its traceback. With `at_once` the process
    ends without what libraries do at its end, for one whose libraries may wait there for ever.
    """
    for category in (FutureWarning, DeprecationWarning, UserWarning):
        warnings.filterwarnings(
            "ignore", category=category, module=r"(torch|torchvision|transformers|datasets|huggingface_hub)\b"
        )
    try:
        status = main(sys.argv[1:]) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except (ValueError, FileNotFoundError) as error:
        if not _raised_by_us(error):
            raise
        rank = int(os.environ.get("RANK", "0"))
        print(f"[rank {rank}] {error}" if rank else error, file=sys.stderr)
        status = 2
    except BrokenPipeError:  # the reader (head, less) has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    _exit(status, at_once)


def _exit(status: int, at_once: bool) -> NoReturn:
    """End the process; at once, or if it has joined others, without taking Python down.

    A thread of gloo's that lets go of a tensor while the interpreter ends would abort it (pytorch/pytorch#190489), and
    neither destroying the groups nor collecting garbage ends these threads for certain.
    """
    distributed = sys.modules.get("torch.distributed")
    joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if at_once or joined:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def choose_verb(arguments: Sequence[str], verbs: Sequence[str]) -> tuple[str, list[str]]:
    """What a command with several verbs is to do, and the arguments that are left; without a verb it is the first."""
    first = next(iter(arguments), "")
    if not first or "=" in first or first.startswith("-"):
        return verbs[0], list(arguments)
    if first not in verbs:
        raise ValueError(f"{first}: neither key=value nor one of {', '.join(verbs)}")
    return first, list(arguments[1:])


def options(cls: type[Options], arguments: Sequence[str], usage: str) -> Options:
    """`key=value` arguments as an instance of dataclass `cls`; `--help` prints usage and keys, and exits."""
    if "--help" in arguments or "-h" in arguments:
        print(f"{usage.strip()}\n\nOptions (key=value) and their defaults:")
        for field in fields(cls):  # type: ignore[arg-type]
            print(
                f"  {field.name}="
                + ("" if field.default is MISSING else "null" if field.default is None else str(field.default))
            )
        sys.exit(0)
    given: dict[str, object] = {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text}: give options as key=value; --help lists the keys")
        if key in given:
            raise ValueError(f"{key}: given more than once")
        given[key] = _parsed(value)
    return validated(cls, given)


def _parsed(text: str) -> object:
    """YAML as Hydra reads it; what is none, is the text itself."""
    try:
        values = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]), resolve=True)
    except (OmegaConfBaseException, YAMLError):
        return text
    assert isinstance(values, dict)
    return values["value"]


def show_usage(arguments: Sequence[str], usage: str | None) -> bool:
    """Print the usage of a command without options if the arguments ask for it; returns whether they do."""
    if "--help" not in arguments and "-h" not in arguments:
        return False
    print((usage or "").strip())
    return True


def _raised_by_us(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    path = Path(frames[-1].filename)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in OURS
