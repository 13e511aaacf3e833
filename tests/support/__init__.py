"""What tests share: reference implementations, toy problems, real ranks."""

from pathlib import Path

#: the repository, from which commands are run
ROOT = Path(__file__).resolve().parents[2]
