"""The bytes of a store that is not there yet, file by file, from the format alone.

A shard's size follows from its arrays' types and shapes, its sidecar's from the lengths of its labels. Ids that are not
there yet are taken to go on as those that are: counted up, or all of one length; else their mean length counts, and the
sizes are no longer exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from sdi.store.sidecar import sidecar_text

DIGEST = 16  # characters of the digest of an example's content
LINE = 4  # of a list in a sidecar: two spaces, the label, a comma and a line end, the last without its comma
FIVE = 10**5  # the first number of a shard that has more than five digits
NUMBER = re.compile(r"(.*?)(0|[1-9]\d*)", re.DOTALL)


class Shards(NamedTuple):
    """How the examples of a side fall into shards: `whole` shards of `rows`, and one of `rest` if that is not 0."""

    whole: int
    rows: int
    rest: int

    @property
    def number(self) -> int:
        return self.whole + (self.rest > 0)


def split_shards(examples: int, batch: int, shard: int) -> Shards:
    """Whole batches go into a shard until it holds at least `shard` examples.

    >>> split_shards(30, batch=4, shard=10)
    Shards(whole=2, rows=12, rest=6)
    """
    rows = batch * ceil(shard / batch)
    return Shards(examples // rows, rows, examples % rows)


def file_bytes(arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]], rows: int) -> int:
    """The size of a safetensors file. arrays: by name, the type and the shape of one row."""
    header, end = {}, 0
    for name in sorted(arrays, key=lambda name: (-arrays[name][0].itemsize, name)):  # the order that safetensors has
        dtype, shape = arrays[name]
        start, end = end, end + rows * prod(shape) * dtype.itemsize
        header[name] = {"dtype": f"F{8 * dtype.itemsize}", "shape": [rows, *shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"))
    return 8 + 8 * ceil(len(text) / 8) + end


def side_bytes(
    arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]], shards: Shards, place: str, ids: int, tau: int
) -> int:
    """The size of all shards of a side at a checkpoint, with their sidecars.

    arrays: by name, the type and the shape of one row. place: the side's folder in the store.
    ids: bytes of all its ids, as JSON. tau: the steps of every example.
    """
    files = shards.whole * file_bytes(arrays, shards.rows) + (file_bytes(arrays, shards.rest) if shards.rest else 0)
    n = shards.whole * shards.rows + shards.rest
    labels = ids + n * (DIGEST + 2 + len(str(tau)))  # a line each, in three lists
    return files + labels + 3 * LINE * n + _frames(shards.number, place)


def _frames(count: int, place: str) -> int:
    """The bytes of so many sidecars without the lines of their labels. Numbers of shards have at least five digits."""
    one_row = {"ids": [""], "contents": [""], "tau": [1]}
    text = sidecar_text(one_row, b"", {"store": "0" * 64, "place": f"{place}/shard-00000"})
    lines = 2 + 2 + 1 + 3 * LINE
    longer = sum_of_digits(FIVE, count - FIVE) - 5 * (count - FIVE) if count > FIVE else 0
    return count * (len(text) - lines) + longer


def sum_of_digits(first: int, count: int) -> int:
    """How many digits the numbers first, first + 1, ... have together.

    >>> sum_of_digits(8, 4)
    6
    """
    total, last = 0, first + count  # exclusive
    digits, low, high = 1, 0, 10
    while low < last:
        total += digits * max(0, min(high, last) - max(low, first))
        digits, low, high = digits + 1, high, high * 10
    return total


def all_id_bytes(ids: Sequence[str], count: int) -> tuple[int, str | None]:
    """The bytes of `count` ids as JSON, of which `ids` are the first; and why that is a guess, if it is one.

    >>> all_id_bytes(["t-8", "t-9"], 4)
    (22, None)
    """
    lengths = [len(json.dumps(i)) for i in ids]
    found = [NUMBER.fullmatch(i) for i in ids]
    parts = [(m[1], int(m[2])) for m in found if m is not None]
    first = parts[0] if parts else ("", 0)
    counted = [(first[0], first[1] + k) for k in range(len(ids))] == parts and not first[0].endswith("0")
    if counted and len(ids) > 1:
        return count * len(json.dumps(first[0])) + sum_of_digits(first[1], count), None
    if len(set(lengths)) == 1:
        return count * lengths[0], None
    return round(count * sum(lengths) / len(lengths)), "ids are taken to be as long as those of the first batches"
