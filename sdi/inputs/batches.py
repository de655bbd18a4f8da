"""Batches: nested mappings, lists and tuples of arrays or tensors whose first axis counts examples.

A list without arrays in it, of as many entries as there are examples, has one entry for each of them. A batch of
graphs, as PyTorch Geometric's `Batch` is one, holds one graph for each example.

An example has an id, given under the batch's key "id" or else a digest of its content, by which its rows are matched
everywhere. The key "id" is for us: it is not passed on to the loss.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

ID = "id"
PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Examples(NamedTuple):
    """A batch with the ids and content digests of its examples."""

    batch: Any
    ids: tuple[str, ...]
    contents: tuple[str, ...]


def read_batches(loader: Iterable[Any], name: str) -> Iterator[Examples]:
    """Iterate over a loader's batches, each with the ids of its examples. Refuses an empty loader and repeated ids.

    loader: a list of batches, a DataLoader, or any iterable of batches. name: "train" or "query", for messages.
    """
    if isinstance(loader, Mapping) or hasattr(loader, "shape"):
        kind = type(loader).__name__
        raise ValueError(
            f"{name} must be a list of batches or a DataLoader, got a single batch ({kind}): write [batch]"
        )
    if not any(hasattr(loader, way) for way in ("__iter__", "__getitem__")):
        raise ValueError(f"{name} must be a list of batches or a DataLoader, got {loader!r}")
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
        raise ValueError(
            f"{name} gave no examples; it must be a list or a DataLoader that is not empty, "
            "not a generator, which is used up when it was read once"
        )


def example_ids(loader: Iterable[Any]) -> tuple[str, ...]:
    """The ids of a loader's examples in its own order, as `sel` takes them: `result.sdi.sel(train=example_ids(train))`.

    loader: a list of batches, a DataLoader, or any iterable of batches.
    Returns one text for each example.

    >>> example_ids([{"id": ["b", "a"], "x": np.zeros(2)}, {"id": [7], "x": np.ones(1)}])
    ('b', 'a', '7')
    """
    return tuple(i for examples in read_batches(loader, "loader") for i in examples.ids)


def in_order(ids: Iterable[str]) -> tuple[str, ...]:
    """Ids in the order in which results have them, whatever the order of a loader: natural, numbers by their size.

    >>> in_order(["t-10", "t-9", "a"])
    ('a', 't-9', 't-10')
    """
    return tuple(sorted(ids, key=lambda i: (natural(i), i)))


def natural(text: str) -> list[Any]:
    """A key to sort texts by, in which the numbers in them count by size."""
    parts = re.split(r"(\d+)", text)
    numbers = [(len(part.lstrip("0")), part.lstrip("0")) for part in parts[1::2]]
    return [x for pair in zip(parts[::2], [*numbers, (0, "")], strict=True) for x in pair]


def name_examples(batch: Any) -> Examples:
    """A batch without its key "id", and the ids that stood there; without that key, digests of the content are ids."""
    given = None
    if isinstance(batch, Mapping) and ID in batch:
        given = batch[ID]
        batch = _like(batch, {key: value for key, value in batch.items() if key != ID})
    n = count_examples(batch)
    contents = digests(batch, n)
    if given is None:
        return Examples(batch, contents, contents)
    if isinstance(given, (*PLAIN, Set, Mapping)) or not hasattr(given, "__len__") or len(given) != n:
        raise ValueError(f"the batch's 'id' must be a list with an id for each of its {n} examples, got {given!r}")
    return Examples(batch, tuple(id_text(i) for i in given), contents)


def id_text(i: Any) -> str:
    """An id as text, the same in every process. Refuses None, bytes, arrays, and objects whose text is an address.

    >>> id_text(7), id_text(np.array("a"))
    ('7', 'a')
    """
    value = i.item() if hasattr(i, "item") and not is_array(i) else i
    kind: Any = type(value)
    nameless = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    if nameless or value is None or is_array(value) or isinstance(value, (bytes, bytearray, Set)):
        remedy = "; decode it" if isinstance(value, (bytes, bytearray)) else ""
        raise ValueError(f"the id of an example must be a text or a number, got {value!r}{remedy}")
    return str(value)


def count_examples(batch: Any) -> int:
    """The number of examples: the length of the first array in the batch, or the number of its graphs."""
    for _, x in leaves(batch):
        if is_graphs(x):
            return int(x.num_graphs)
        if is_array(x):
            return len(x)
    raise ValueError(f"a batch must hold an array whose first axis counts examples, got {type(batch).__name__}")


def take_examples(batch: Any, rows: slice | Sequence[int], n: int, shared: Collection[str] = ()) -> Any:
    """Some examples of a batch of n: every array or list of length n is indexed by `rows`; all else is kept as it is.

    shared: paths (see `leaves`) that are kept as they are even if they have length n.
    """
    if not any(has_rows(x, n) and not isinstance(x, list) and path not in shared for path, x in leaves(batch)):
        raise TypeError(
            f"cannot take single examples out of a batch of type {type(batch).__name__}: no array in it has {n} rows; "
            "give a mapping, list or tuple of arrays, or pass audit='off' and no byte budget"
        )

    def take(path: str, x: Any) -> Any:
        if not has_rows(x, n) or path in shared:
            return x
        if is_graphs(x):
            graphs = x.to_data_list()
            return type(x).from_data_list([graphs[k] for k in (range(n)[rows] if isinstance(rows, slice) else rows)])
        if isinstance(rows, slice):
            return x[rows]
        return [x[k] for k in rows] if isinstance(x, list) else x[np.asarray(rows, dtype=np.int64)]

    return map_leaves(batch, take)


def digests(batch: Any, n: int) -> tuple[str, ...]:
    """For each of n examples, a short digest of its own rows and of all that the examples share."""
    common, own = hashlib.sha256(), []
    for path, x in leaves(batch):
        common.update(f"|{path}|".encode())
        if is_graphs(x) and has_rows(x, n):
            own.append([_graph_bytes(graph) for graph in x.to_data_list()])
        elif isinstance(x, list) and has_rows(x, n):
            words = [repr(part).encode() for part in x]
            own.append([b"%d:%b" % (len(word), word) for word in words])  # lengths tell (1, 23) from (12, 3)
        elif hasattr(x, "shape"):
            rows = has_rows(x, n)
            x = as_numpy(x)
            common.update(f"{x.dtype.str}|{x.shape[1:] if rows else x.shape}|".encode())
            if rows:
                own.append([row.tobytes() for row in x])
            else:
                common.update(x.tobytes())
        elif isinstance(x, (*PLAIN, list)):
            common.update(repr(x).encode())
    out = []
    for i in range(n):
        digest = common.copy()
        for rows_of in own:
            digest.update(rows_of[i])
        out.append(digest.hexdigest()[:16])
    return tuple(out)


def shapes_of(batch: Any) -> str:
    """The shapes of a batch's arrays without their first axis, with their paths, as text."""
    return " ".join(f"{path}{tuple(x.shape[1:])}" for path, x in leaves(batch) if is_array(x))


def is_array(x: Any) -> bool:
    return len(getattr(x, "shape", ())) > 0


def has_rows(x: Any, n: int) -> bool:
    """Whether a leaf has a row for each of n examples."""
    return bool(x.num_graphs == n) if is_graphs(x) else (isinstance(x, list) or is_array(x)) and len(x) == n


def is_graphs(x: Any) -> bool:
    """Whether a value is a batch of graphs: it says how many, can be taken apart into them, and made of some."""
    if isinstance(x, (*PLAIN, list)) or hasattr(x, "shape"):
        return False
    return all(hasattr(x, name) for name in ("num_graphs", "to_data_list", "from_data_list"))


def _graph_bytes(graph: Any) -> bytes:
    """The content of one graph: its tensors and values, by name."""
    given = graph.to_dict() if hasattr(graph, "to_dict") else vars(graph)
    parts = hashlib.sha256()
    for key in sorted(given):
        x = given[key]
        if hasattr(x, "shape"):
            x = as_numpy(x)
            parts.update(f"|{key}|{x.dtype.str}|{x.shape}|".encode() + x.tobytes())
        else:
            parts.update(f"|{key}|{x!r}|".encode())
    return parts.digest()


def leaves(batch: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every array, list without arrays, and single value of a nested batch, each with its path (".key.0")."""
    if isinstance(batch, Mapping):
        for key in batch:
            yield from leaves(batch[key], f"{path}.{key}")
    elif isinstance(batch, (list, tuple)) and not _is_plain_list(batch):
        for i, part in enumerate(batch):
            yield from leaves(part, f"{path}.{i}")
    else:
        yield path, batch


def map_leaves(batch: Any, f: Callable[[str, Any], Any], path: str = "") -> Any:
    """The batch with f(path, value) in place of every leaf."""
    if isinstance(batch, Mapping):
        return _like(batch, {key: map_leaves(value, f, f"{path}.{key}") for key, value in batch.items()})
    if isinstance(batch, (list, tuple)) and not _is_plain_list(batch):
        parts = [map_leaves(part, f, f"{path}.{i}") for i, part in enumerate(batch)]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return f(path, batch)


def _is_plain_list(x: Any) -> bool:
    return isinstance(x, list) and not any(hasattr(leaf, "shape") for part in x for _, leaf in leaves(part))


def _like(batch: Mapping[Any, Any], content: dict[Any, Any]) -> Any:
    return content if isinstance(batch, dict) else type(batch)(content)  # type: ignore[call-arg]


def as_numpy(x: Any) -> np.ndarray:
    """A tensor as a NumPy array on the CPU; bfloat16, which NumPy lacks, as float32."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
    return np.asarray(x)
