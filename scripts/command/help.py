"""What a training configuration can hold, for `--help`; and what it does hold, for `--print-config`."""

import json
import textwrap
from collections.abc import Sequence

from omegaconf import OmegaConf

from scripts.command.compose import GROUPS, choices, compose
from scripts.command.config import load


def wanted_help(arguments: Sequence[str], usage: str | None) -> bool:
    """Whether the user only wanted to see something; it has been printed then."""
    if "--help" in arguments or "-h" in arguments:
        print(f"{(usage or '').strip()}\n\n{_describe()}\n\n--print-config shows the composed configuration of a run.")
        return True
    if "--print-config" in arguments:
        config = load([text for text in arguments if text != "--print-config"])
        print(OmegaConf.to_yaml(OmegaConf.create(config.as_dict())), end="")
        return True
    return False


def _describe() -> str:
    """The groups with their choices, and the keys of the default choices with their values."""
    values, names = compose([])
    lines = ["Choices (GROUP=NAME; the default is marked *):"]
    for group in GROUPS:
        marked = [f"{name}*" if name == names[group] else name for name in choices(group)]
        lines.append(textwrap.fill(" ".join(marked), 118, initial_indent=f"  {group:<11}", subsequent_indent=" " * 13))
    lines += ["", "Keys (KEY=VALUE) and their values with the default choices:"]
    for key, value in values.items():
        entries = {f"{key}.{name}": entry for name, entry in value.items()} if isinstance(value, dict) else {key: value}
        lines += [f"  {name}={json.dumps(entry)}" for name, entry in entries.items() if not name.endswith(".name")]
    return "\n".join(lines)
