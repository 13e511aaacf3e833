"""Settings of a tiny GPT-2 task for tests."""

from tasks.gpt2.settings import Settings

TINY = {
    "name": "gpt2", "dataset": "sotu", "tokenizer": "sotu", "data_dir": "unused", "validation_fraction": 0.05,
    "split_seed": 2357, "validation_tokens": None, "validation_batch": 16, "global_batch": 16, "sharding": "iid",
    "vocabulary": 2048, "context": 32, "layers": 2, "heads": 2, "width": 16, "bias": False, "dropout": 0.0,
}  # fmt: skip


def settings(**changes) -> Settings:
    return Settings(**{**TINY, **changes})
