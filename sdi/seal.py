"""seal: a sha256 that stands in a file and covers all its other bytes, so that a flipped bit anywhere is noticed.

While the digest is taken, a hole stands in its place. It says that a file is as it was written, not who wrote it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

HOLE = hashlib.sha256(b"the place of a digest").hexdigest()  # 64 letters that nothing else in a file consists of


def sealed(content: bytes) -> bytes:
    """The content with the digest in its hole.

    >>> text = sealed(f"eta = 0.1, sha256 = {HOLE}".encode())
    >>> is_whole(text, text[-64:].decode()), is_whole(text.replace(b"0.1", b"0.2"), text[-64:].decode())
    (True, False)
    """
    head, hole, tail = content.partition(HOLE.encode())
    if not hole:
        raise ValueError("the content has no hole for its digest")
    return head + hashlib.sha256(content).hexdigest().encode() + tail


def is_whole(content: bytes, digest: Any, more: Iterable[bytes] = ()) -> bool:
    """Whether the content, which holds this digest, and what follows it in the file are as they were sealed."""
    if not isinstance(digest, str) or len(digest) != len(HOLE) or not digest.isascii():
        return False
    found = hashlib.sha256(content.replace(digest.encode(), HOLE.encode(), 1))
    for block in more:
        found.update(block)
    return found.hexdigest() == digest


def sealed_json(content: dict[str, Any]) -> bytes:
    """A JSON document with its digest under the key "sha256", before all else."""
    return sealed((json.dumps({"sha256": HOLE, **content}, indent=1) + "\n").encode())
