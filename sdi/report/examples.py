"""show_examples: what the user's `show` says of each example, checked, and made of text and pictures only."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sdi.inputs.batches import ID, has_rows, is_graphs, map_leaves, read_batches
from sdi.printable import printable

Show = Callable[[Any], Any]
LONGEST = 4000  # characters of a text; tokens of an example
LARGEST = 200_000  # bytes of a picture
IMAGES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


def show_examples(loader: Iterable[Any], side: str, ids: set[str], show: Show) -> dict[str, Any]:
    """What `show` says of the examples with these ids, by id, as JSON values that a page can draw.

    loader: iterable of batches. side: "train" or "query", for messages. show: see `write_report`.
    """
    out: dict[str, Any] = {}
    for examples in read_batches(loader, side):
        for k, i in enumerate(examples.ids):
            if i in ids:
                said = show(one_example(examples.batch, k, len(examples.ids), i))
                if said is not None:
                    out[i] = as_shown(said, i)
    return out


def one_example(batch: Any, k: int, n: int, i: str) -> Any:
    """Row k of a batch of n examples; of a mapping, with the example's id.

    >>> one_example({"x": np.eye(2)}, 1, 2, "b")
    {'x': array([0., 1.]), 'id': 'b'}
    """

    def row_of(path: str, x: Any) -> Any:
        if not has_rows(x, n):
            return x
        return x.to_data_list()[k] if is_graphs(x) else x[k]

    row = map_leaves(batch, row_of)
    return {**row, ID: i} if isinstance(row, Mapping) else row


def as_shown(said: Any, i: str) -> dict[str, Any]:
    """One answer of `show`, as the page draws it.

    >>> as_shown("two\\nlines", "a"), as_shown([("to", 0.5), ("be", -1)], "a")
    ({'text': 'two\\nlines'}, {'tokens': ['to', 'be'], 'values': [0.5, -1.0]})
    >>> as_shown([[1, 2], ["", 4]], "a")
    {'board': [['1', '2'], ['', '4']]}
    """
    if isinstance(said, str):
        return {"text": _text(said)}
    if isinstance(said, (bytes, bytearray)):
        return {"image": _image(bytes(said), i)}
    if isinstance(said, np.ndarray):
        return {"image": _image(_png(said, i), i)}
    if isinstance(said, (list, tuple)) and said:
        if all(isinstance(row, list) for row in said) and len({len(row) for row in said}) == 1:
            return {"board": [[_text(cell) for cell in row] for row in said[:LONGEST]]}
        if all(isinstance(token, str) for token in said):
            return {"tokens": [_text(token) for token in said[:LONGEST]]}
        if all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in said):
            values = [float(value) for _, value in said[:LONGEST]]
            if not np.isfinite(values).all():
                raise ValueError(f"show gave example {i!r} a token whose value is not finite")
            return {"tokens": [_text(token) for token, _ in said[:LONGEST]], "values": values}
    raise TypeError(
        "show must return a text, an image (bytes, or an array of uint8), tokens (a list of texts, or of pairs of a "
        f"text and a number), a board (a list of lists, all of one length) or None; for example {i!r} it returned "
        f"{said!r}"
    )


def _text(value: Any) -> str:
    """A value as text: control characters escaped, but for line ends and tabs; cut where it is too long."""
    text = "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in str(value).split("\n"))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _image(content: bytes, i: str) -> str:
    """A picture as a data URL. Only kinds that hold pixels are taken: an SVG may hold links and scripts."""
    kind = next((kind for head, kind in IMAGES.items() if content.startswith(head)), None)
    if kind is None or (kind == "webp" and content[8:12] != b"WEBP"):
        raise ValueError(
            f"show must return the bytes of a PNG, JPEG, GIF or WebP file; for example {i!r} they begin {content[:8]!r}"
        )
    if len(content) > LARGEST:
        raise ValueError(
            f"show must return a picture of at most {LARGEST:,} bytes, got {len(content):,} for example {i!r}"
        )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _png(pixels: np.ndarray, i: str) -> bytes:
    """An array (height, width), or (height, width, 3 or 4), of uint8 as a PNG file."""
    kinds = {1: 0, 3: 2, 4: 6}  # numbers in a pixel -> PNG's colour type
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    if pixels.dtype != np.uint8 or len(shape) != 3 or shape[2] not in kinds or not pixels.size:
        raise TypeError(
            "an array that show returns must be uint8 of shape (height, width), or with 3 or 4 numbers in a pixel; for "
            f"example {i!r} it is {pixels.dtype} of shape {pixels.shape}"
        )
    rows = np.ascontiguousarray(pixels).reshape(shape[0], -1)
    lines = np.concatenate([np.zeros((len(rows), 1), np.uint8), rows], axis=1)  # each line begins with its filter, none

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", shape[1], shape[0], 8, kinds[shape[2]], 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
