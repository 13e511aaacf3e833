"""Parts of a text that are made of records: what stands between two comments of a name."""

from collections.abc import Mapping
from pathlib import Path

from decent_core.system.files import write_atomically


def fill(path: Path, parts: Mapping[str, str]) -> None:
    """Put each part between its comments, `<!-- name -->` and `<!-- /name -->`, where the text has them.

    ValueError if it can't be read.
    """
    try:
        before = text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"readme={path}: cannot be read ({error}); readme=null leaves it out") from None
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        head, found, rest = text.partition(begin)
        if found:
            text = f"{head}{begin}\n\n{part.rstrip()}\n\n{end}{rest.partition(end)[2]}"
    if text != before:
        write_atomically(path, text)
