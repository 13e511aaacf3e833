"""Small real data carried with the code: `NAME.xz`, and beside it `NAME.json` with its source, licence and sha256.

`python -m scripts.prepare assets` makes both again.
"""

import hashlib
import json
import lzma
from pathlib import Path

FOLDER = Path(__file__).parent


def read(name: str) -> bytes:
    """The uncompressed content of asset `name`; ValueError if the file is not the one that was derived."""
    packed = (FOLDER / f"{name}.xz").read_bytes()
    expected = json.loads((FOLDER / f"{name}.json").read_text())["sha256"]
    if hashlib.sha256(packed).hexdigest() != expected:
        raise ValueError(
            f"{FOLDER / name}.xz is damaged: its sha256 is not the one in {name}.json. Restore both files from the "
            f"repository, or derive them again with: python -m scripts.prepare assets {name}"
        )
    return lzma.decompress(packed)


def write(name: str, content: bytes, *, source: str, content_is: str, licence: str) -> Path:
    """Stores `content` as asset `name` with its origin and licence; the same content gives the same bytes."""
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    notice = {
        "source": source,
        "content": content_is,
        "licence": licence,
        "sha256": hashlib.sha256(packed).hexdigest(),
        "sha256_uncompressed": hashlib.sha256(content).hexdigest(),
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(notice, indent=2, ensure_ascii=False) + "\n")
    path = FOLDER / f"{name}.xz"
    path.write_bytes(packed)
    return path
