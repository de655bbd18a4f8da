"""seal: a sha256 inside a file that covers all its other bytes, so that a flipped bit anywhere is noticed.

The digest is taken with a placeholder in its own place. It shows that a file is unchanged, not who wrote it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

HOLE = hashlib.sha256(b"the place of a digest").hexdigest()  # a placeholder that occurs nowhere else


def sealed(content: bytes) -> bytes:
    """The content with the placeholder HOLE replaced by the sha256 of the content.

    >>> text = sealed(f"eta = 0.1, sha256 = {HOLE}".encode())
    >>> is_whole(text, text[-64:].decode()), is_whole(text.replace(b"0.1", b"0.2"), text[-64:].decode())
    (True, False)
    """
    head, hole, tail = content.partition(HOLE.encode())
    if not hole:
        raise ValueError("the content has no hole for its digest")
    return head + hashlib.sha256(content).hexdigest().encode() + tail


def is_whole(content: bytes, digest: Any, more: Iterable[bytes] = ()) -> bool:
    """Whether `digest`, which stands in `content`, is right for `content` and the blocks `more` that follow it."""
    if not isinstance(digest, str) or len(digest) != len(HOLE) or not digest.isascii():
        return False
    found = hashlib.sha256(content.replace(digest.encode(), HOLE.encode(), 1))
    for block in more:
        found.update(block)
    return found.hexdigest() == digest


def sealed_json(content: dict[str, Any]) -> bytes:
    """A JSON document with its own digest under the key "sha256", which comes first."""
    return sealed((json.dumps({"sha256": HOLE, **content}, indent=1) + "\n").encode())
