"""Batches: nested mappings, lists and tuples of arrays or tensors whose first axis counts examples.

An example has an id, given under the batch's key "id" or else a digest of its content, by which its rows are matched
everywhere. The key "id" is for us: it is not passed on to the loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

ID = "id"


class Examples(NamedTuple):
    """A batch with the ids and content digests of its examples."""

    batch: Any
    ids: tuple[str, ...]
    contents: tuple[str, ...]


def read_batches(loader: Iterable[Any], name: str) -> Iterator[Examples]:
    """The batches of a loader, every example named; an empty loader and repeated ids are refused."""
    seen: dict[str, str] = {}
    for batch in loader:
        examples = name_examples(batch)
        for i, content in zip(examples.ids, examples.contents, strict=True):
            if i in seen:
                same = "with the same content" if seen[i] == content else "with other content"
                raise ValueError(
                    f"{name} holds example {i!r} twice, {same}; give each example an id of its own under the key 'id'"
                )
            seen[i] = content
        yield examples
    if not seen:
        raise ValueError(f"{name} gave no batches; it must be re-iterable (a list or a DataLoader, not a generator)")


def name_examples(batch: Any) -> Examples:
    """Take the ids out of a batch, or make them from the content."""
    given = None
    if isinstance(batch, Mapping):
        given = batch.get(ID)
        batch = {key: value for key, value in batch.items() if key != ID}
    n = count_examples(batch)
    contents = digests(batch, n)
    if given is None:
        return Examples(batch, contents, contents)
    ids = tuple(str(getattr(i, "item", lambda i=i: i)()) for i in given)
    if len(ids) != n:
        raise ValueError(f"the batch's ids must name each of its {n} examples, got {len(ids)}")
    return Examples(batch, ids, contents)


def count_examples(batch: Any) -> int:
    """Rows of the first array in the batch."""
    for _, x in arrays(batch):
        return len(x)
    raise ValueError(f"a batch must hold an array whose first axis counts examples, got {type(batch).__name__}")


def take_examples(batch: Any, rows: slice | Sequence[int], n: int) -> Any:
    """Some examples of a batch: every array with n rows is cut; what all examples share stays."""
    index = rows if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)
    return map_arrays(batch, lambda x: x[index] if len(x) == n else x)


def digests(batch: Any, n: int) -> tuple[str, ...]:
    """A short digest of each example's own rows, and of what all examples share."""
    common, own = hashlib.sha256(), []
    for path, x in arrays(batch):
        x = _plain(x)
        common.update(f"|{path}|{x.dtype.str}|{x.shape[1:] if len(x) == n else x.shape}|".encode())
        if len(x) == n:
            own.append(np.ascontiguousarray(x))
        else:
            common.update(np.ascontiguousarray(x).tobytes())
    out = []
    for i in range(n):
        digest = common.copy()
        for x in own:
            digest.update(x[i].tobytes())
        out.append(digest.hexdigest()[:16])
    return tuple(out)


def arrays(batch: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every array or tensor with at least one axis, with its place in the batch."""
    if isinstance(batch, Mapping):
        for key in batch:
            yield from arrays(batch[key], f"{path}.{key}")
    elif isinstance(batch, (list, tuple)):
        for i, part in enumerate(batch):
            yield from arrays(part, f"{path}.{i}")
    elif len(getattr(batch, "shape", ())) > 0:
        yield path, batch


def map_arrays(batch: Any, f: Callable[[Any], Any]) -> Any:
    """The batch with f applied to every array or tensor with at least one axis."""
    if isinstance(batch, Mapping):
        return {key: map_arrays(value, f) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_arrays(part, f) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map_arrays(part, f) for part in batch)
    return f(batch) if len(getattr(batch, "shape", ())) > 0 else batch


def _plain(x: Any) -> np.ndarray:
    """A tensor as an array; types that NumPy lacks, as the next wider one."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
    return np.asarray(x)
