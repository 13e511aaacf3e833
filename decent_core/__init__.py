"""Decentralized (gossip) data-parallel training in PyTorch.

`from decent_core import Gossip` makes a training loop of one's own decentralized. Names are loaded when they are asked
for, so that importing the package alone needs no torch.
"""

from typing import Any

__all__ = ["Gossip"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from decent_core.gossip import Gossip

        return Gossip
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
