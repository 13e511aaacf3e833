"""Methods: what is exchanged, and when. Every module of this package that defines a `Method` adds it to `METHODS`."""

import importlib
import inspect
import pkgutil

from decent_core.methods.base import Done, Method, Pending, Workers

__all__ = ["METHODS", "Done", "Method", "Pending", "Workers"]


def _discover() -> dict[str, type[Method]]:
    """All methods by name, from the modules of this package."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(__path__):
        members = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        for member in members:
            if inspect.isclass(member) and issubclass(member, Method) and member is not Method:
                found[member.name] = member
    return dict(sorted(found.items()))


METHODS = _discover()
