"""Nested JSON values as the cells of flat columns, and back without loss.

A column's name is the path of a value, such as `config.task.name`. A number stands in its cell as JSON writes it, a
text as it is unless that would be read as JSON, or as a formula by a spreadsheet, and everything else as JSON. An empty
cell: there is no such value.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes what a cell that begins so says
Columns = dict[str, Any]  # path of a value -> the value


def flatten(values: Mapping[str, Any], prefix: str = "") -> Columns:
    """The values of a nested mapping by path; lists stay whole, as does a mapping with a key that makes no path."""
    flat: Columns = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value and all(map(_is_name, value)):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The nested mapping of values by path; ValueError where one path goes through the value of another."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ValueError(f"{path!r} is below {parent!r}, which has a value of its own")
        if name in place:
            raise ValueError(f"{path!r} is given twice")
        place[name] = value
    return nested


def to_cell(value: Any) -> str:
    """A value as the text of a cell."""
    if isinstance(value, str) and value and value.isprintable() and not (value.startswith(FORMULA) or _is_json(value)):
        return value
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if _is_unicode(text) else json.dumps(value, allow_nan=False)


def from_cell(text: str) -> Any:
    """The value of a cell that is not empty."""
    return json.loads(text) if _is_json(text) else text


def write_csv(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """A CSV file with a line for each mapping of paths to values, in columns of these names."""
    rows = ([to_cell(line[name]) if name in line else "" for name in names] for line in lines)
    return "".join(map(_csv_line, (names, *rows))).encode()


def _csv_line(cells: Sequence[str]) -> str:
    """Before Python 3.13 csv quotes a carriage return only where lines end with one."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerow(cells)
    return stream.getvalue().removesuffix("\r\n") + "\n"


def read_csv(content: bytes, where: str, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(number, cells by column) of each line below the header.

    Raises ValueError, beginning with `where`, for what is no such file: it names the line and what is wrong there.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: no UTF-8 text ({error.reason} at byte {error.start})") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if missing := sorted(set(needed) - set(header)):
            raise ValueError(
                f"{where}, line 1: there is no column {missing[0]!r}, only {', '.join(header) or 'nothing'}"
            )
        if twice := next((name for name in header if header.count(name) > 1), None):
            raise ValueError(f"{where}, line 1: column {twice!r} is there twice")
        for cells in reader:
            if len(cells) != len(header):
                raise ValueError(f"{where}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}")
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"{where}, line {reader.line_num}: {error}") from None


def _is_name(key: str) -> bool:
    return key != "" and key.isprintable() and "." not in key


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
