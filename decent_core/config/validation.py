"""Values against dataclasses: one message that names the key, what was given and what works."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

Settings = TypeVar("Settings")


def no_such(kind: str, given: str, known: Iterable[str]) -> str:
    """`no such key; did you mean lr?`, or all that there is if nothing is close."""
    names = sorted(set(known))
    close = difflib.get_close_matches(given, names, n=1)
    return f"no such {kind}; " + (f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names)}")


def validated(cls: type[Settings], values: Mapping[str, Any], prefix: str = "") -> Settings:
    """An instance of dataclass `cls`; raises ValueError for an unknown or missing key or a value of another type."""
    keys = [field.name for field in fields(cls) if field.init]  # type: ignore[arg-type]
    for key in values:
        if key not in keys:
            raise ValueError(f"{prefix}{key}: {no_such('key', key, keys)}")
        _check_finite(f"{prefix}{key}", values[key])
    try:
        return _adapter(cls).validate_json(json.dumps(values), strict=True)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ValueError("; ".join(_readable(error, prefix))) from None


def _check_finite(key: str, value: Any) -> None:
    """Raises ValueError for a number, or one in a list, that is not finite: comparisons with nan are all false."""
    for entry in value if isinstance(value, list | tuple) else [value]:
        if isinstance(entry, float) and not math.isfinite(entry):
            raise ValueError(f"{key}={value}: must be finite")


def validated_parts(schema: Mapping[str, type], values: Mapping[str, Any]) -> dict[str, Any]:
    """Each part of a configuration as an instance of its dataclass; raises as `validated`, with the whole key."""
    return {part: validated(cls, values[part], f"{part}.") for part, cls in schema.items()}


@lru_cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def _readable(error: ValidationError, prefix: str) -> list[str]:
    """A text for each key; what the alternatives of a union say is joined."""
    texts: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        if problem["type"] == "value_error":  # raised by the dataclass itself, complete as it is
            texts[str(problem["ctx"]["error"])] = []
        elif problem["type"] == "missing":
            texts.setdefault(f"{prefix}{problem['loc'][0]}", []).append("a value is missing")
        else:
            key = f"{prefix}{problem['loc'][0]}={json.dumps(problem['input'])}"
            texts.setdefault(key, []).append(problem["msg"][0].lower() + problem["msg"][1:])
    return [f"{key}: {' or '.join(said)}" if said else key for key, said in texts.items()]
