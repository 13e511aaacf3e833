"""What a training configuration can hold, for `--help`; and what it does hold, for `--print-config`."""

import json
import textwrap
from collections.abc import Sequence

from omegaconf import OmegaConf

from decent_core.config.choices import GROUPS, OPEN, choices
from decent_core.config.compose import compose
from decent_core.config.load import load

ENDING = """--help with choices shows the keys that there are with them: --help method=slowmo optimizer=accum_adamw
--print-config shows the composed configuration of a run."""
SHOWS = ("--help", "-h", "--print-config")


def show_help(arguments: Sequence[str], usage: str | None) -> bool:
    """Print help or the composed configuration if the arguments ask for it; returns whether they do.

    Raises ValueError if a given choice or key is wrong.
    """
    given = [text for text in arguments if text not in SHOWS]
    if "--help" in arguments or "-h" in arguments:
        print(f"{(usage or '').strip()}\n\n{_describe(given)}\n\n{ENDING}")
        return True
    if "--print-config" in arguments:
        print(OmegaConf.to_yaml(OmegaConf.create(load(given).as_dict())), end="")
        return True
    return False


def _describe(given: Sequence[str]) -> str:
    """The groups with their choices, and the keys that there are with the given ones, with their values."""
    values, names = compose(given, complete=False)
    lines = ["Choices (GROUP=NAME; what is chosen is marked *):"]
    for group in GROUPS:
        marked = [f"{name}*" if name == names[group] else name for name in choices(group)]
        lines.append(textwrap.fill(" ".join(marked), 118, initial_indent=f"  {group:<11}", subsequent_indent=" " * 13))
    lines += ["", "Keys (KEY=VALUE) and their values with these choices; others have other keys:"]
    for key, value in values.items():
        entries = {f"{key}.{name}": entry for name, entry in value.items()} if isinstance(value, dict) else {key: value}
        lines += [f"  {name}={_shown(entry)}" for name, entry in entries.items() if not name.endswith(".name")]
    return "\n".join(lines)


def _shown(entry: object) -> str:
    return "(must be given)" if entry == OPEN else json.dumps(entry)
