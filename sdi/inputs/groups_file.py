"""read_groups: the groups of training examples, from a JSON object {id: group} or a CSV file of two columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from sdi.files import expand

HEAD = ["id", "group"]


def read_groups(path: str | Path) -> dict[str, str | None]:
    """The group of each id. path: a .json file {"id": "group"}, where null leaves an example out, or a .csv file with
    lines id,group, with or without a first line that says so."""
    path = expand(path)
    rule = f"groups must be a .json file {{id: group}} or a .csv file with lines id,group, got {path}"
    if not path.is_file():
        raise ValueError(f"{rule}, which does not exist")
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{rule}, which is not JSON: {error}") from None
        kinds = (str, int, float, type(None))
        if not isinstance(content, dict) or not all(isinstance(name, kinds) for name in content.values()):
            raise ValueError(f"{rule}, which holds something else")
        return {i: None if name is None else str(name) for i, name in content.items()}
    if path.suffix != ".csv":
        raise ValueError(rule)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    found: dict[str, str | None] = {}
    for k, row in enumerate(rows[1:] if rows[:1] == [HEAD] else rows, 1):
        if len(row) != 2:
            raise ValueError(f"{rule}, where entry {k} has {len(row)} columns")
        if found.setdefault(row[0], row[1]) != row[1]:
            raise ValueError(f"{rule}, where {row[0]!r} is in two groups, {found[row[0]]!r} and {row[1]!r}")
    return found
