"""D2, decentralized training over decentralized data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from decent_core.methods.base import Method, Workers, state
from decent_core.topology import Topology
