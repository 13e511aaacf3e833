"""What the fork server imports before it forks: all that takes long in a training run, a rank or a report."""

# isort: split
import matplotlib.pyplot  # noqa: F401
import pytest  # noqa: F401
import torch._dynamo  # noqa: F401  (an optimizer imports it when it is built)
import transformers.models.gpt2.modeling_gpt2
import transformers.models.marian.modeling_marian  # noqa: F401

import tasks.gpt2.task
import tasks.imagenet.decode
import tasks.imagenet.task
import tasks.regression.task
import tasks.wmt14.task  # noqa: F401
import tests.support.ranks
import tests.support.toy  # noqa: F401
from decent_core.config.load import load

load([])  # Hydra reads its own files, and builds its parser
