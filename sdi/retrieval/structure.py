"""The search structures of an index, as plain arrays: FAISS searches them, and never reads a file.

    "exact"       the vectors themselves, in float32: what is found is what a scan finds
    "compressed"  each vector's coordinates along the `width` axes that hold most of a sample's squared length,
                  quantised to 4 bits each (product quantisation with FAISS's fast scan): width / 2 bytes an example

Gradients lie close to few directions (docs/results/retrieval has spectra), so some tens of axes tell which examples to
look at; the store's own features then say which are the best of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
KINDS = ("compressed", "exact")
SAMPLE = 1024  # examples whose principal axes are taken
TRAINING = 1 << 16  # examples on which the quantiser is trained
LEVELS = 16  # of four bits
SHAPES = {"exact": ("vectors",), "compressed": ("axes", "centroids", "codes")}  # the arrays of each kind


def require_faiss() -> Any:
    """The module faiss; ImportError with the remedy, where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise ImportError("an index needs faiss: pip install 'sdi-influence[index]'") from None
    return faiss


def build_structure(
    blocks: Iterable[Float[Array, "b d"]], sample: Float[Array, "s d"], kind: str, width: int
) -> dict[str, Array]:
    """The arrays of a structure. blocks: the vectors, in order. sample: some of them. width: axes that are kept."""
    if kind == "exact":
        return {"vectors": np.concatenate(list(blocks))}
    axes = principal_axes(sample, width)
    short = np.concatenate([block @ axes for block in blocks])
    faiss = require_faiss()
    index = faiss.IndexPQ(axes.shape[1], axes.shape[1], 4, faiss.METRIC_INNER_PRODUCT)
    index.train(_for_training(short))
    centroids = faiss.vector_to_array(index.pq.centroids).reshape(axes.shape[1], LEVELS)
    return {"axes": axes, "centroids": centroids.astype(np.float32), "codes": index.sa_encode(short)}


def principal_axes(sample: Float[Array, "s d"], width: int) -> Float[Array, "d w"]:
    """The orthonormal directions that hold most of the sample's squared length, an even number of them.

    At most `width`, and as many as there are dimensions. Where the sample has fewer, zeros fill up.
    """
    d = sample.shape[1]
    keep = min(width, d) + min(width, d) % 2
    x = sample.astype(np.float64) / (float(np.abs(sample).max()) or 1.0)
    squares, u = np.linalg.eigh(x @ x.T)  # of the examples, which are fewer than the dimensions
    last = [n for n in range(len(x) - 1, -1, -1) if squares[n] > 1e-12 * squares[-1]][:keep]
    axes = np.zeros((d, keep), dtype=np.float32)
    axes[:, : len(last)] = x.T @ (u[:, last] / np.sqrt(squares[last]))
    return axes


class Searcher:
    """A structure that can be searched."""

    def __init__(self, kind: str, arrays: Mapping[str, Array]) -> None:
        faiss = require_faiss()
        self.axes = arrays.get("axes")
        if kind == "exact":
            self.index = faiss.IndexFlatIP(arrays["vectors"].shape[1])
            self.index.add(arrays["vectors"])
            return
        width = arrays["axes"].shape[1]
        plain = faiss.IndexPQ(width, width, 4, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(arrays["centroids"].reshape(-1), plain.pq.centroids)
        plain.is_trained = True
        plain.add_sa_codes(arrays["codes"])
        self.index = faiss.IndexPQFastScan(plain)

    def search(self, vectors: Float[Array, "T d"], count: int) -> list[Int[Array, "c"]]:
        """For each vector, the places of the `count` examples with the largest products, as well as it can tell."""
        found = vectors if self.axes is None else vectors @ self.axes
        # The scale of a vector changes no order, and FAISS quantises products in float32.
        size = np.abs(found).max(axis=1, keepdims=True)
        found = np.ascontiguousarray(found / np.where(size > 0, size, 1), dtype=np.float32)
        _, places = self.index.search(found, min(count, self.index.ntotal))
        return [row[row >= 0] for row in places]


def check_structure(kind: str, arrays: Mapping[str, Array], examples: int, size: int) -> Iterator[str]:
    """What is wrong with arrays of a file. examples, size: how many vectors of which length there should be."""
    if set(arrays) != set(SHAPES[kind]):
        yield f"it holds {sorted(arrays)}"
        return
    width = arrays["axes"].shape[1] if kind == "compressed" and arrays["axes"].ndim == 2 else 0
    wanted = {
        "vectors": ((examples, size), np.float32),
        "axes": ((size, width), np.float32),
        "centroids": ((width, LEVELS), np.float32),
        "codes": ((examples, width // 2), np.uint8),
    }
    if kind == "compressed" and (width < 2 or width % 2 or width > size + 1):
        yield f"it has {width} axes"
    for name, array in arrays.items():
        shape, dtype = wanted[name]
        if array.shape != shape or array.dtype != dtype:
            yield f"{name} are {array.dtype} of shape {array.shape}"
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            yield f"{name} are not finite"


def _for_training(short: Float[Array, "n w"]) -> Float[Array, "s w"]:
    """Evenly spread examples; of fewer than FAISS asks for, all several times (it would warn)."""
    some = short[:: max(1, -(-len(short) // TRAINING))]
    times = -(-39 * LEVELS // len(some))
    return np.ascontiguousarray(np.tile(some, (times, 1)) if times > 1 else some)
