"""to_torch, where a class has it, gives a twin with the same numbers: for batches and tokens as `featurize` has them.

The twin is called directly, in every way in which the fast backend may call it: that one chooses by cost, so that a
small model would show one way only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.properties.linear import parts
from sdi.validate.properties.nonfinite import BAD, outer_tries, passed_on
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import LARGE, Subject

Array = np.ndarray
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
MAGNITUDES = {"float64": (1.0, 1e-150, 1e150), "float32": (1.0, 1e-15, 1e-7, 1e5, 1e15)}
NUMBERS = 1 << 21  # in a batch
EXAMPLES = (1, 2, 9, 17, 33, 130, 1100, 4500)
TOKENS = ((1, 1), (1, 3), (2, 17), (17, 2), (3, 65), (2, 300), (1, 1100), (130, 3))


@sketch_property(
    "twin",
    says="to_torch, if there is one, gives the numbers of apply and of apply_outer, in float64 and float32, NaN too",
    remedy="compare the twin with the sketch on one array; leave to_torch out until it is right: gradients then go "
    "through NumPy",
    needs=("repeatable", "linear", "factored", "layout", "dtypes"),
)
def twin(subject: Subject) -> Evidence:
    if not hasattr(subject.draw(), "to_torch"):
        return Evidence(0, "there is no to_torch", applies=False)
    return first_wrong(_tries(subject), f"batches of 1 to {EXAMPLES[-1]}, up to {TOKENS[-2][1]} tokens, on the CPU")


def _tries(subject: Subject) -> Iterator[Try]:
    import torch

    device = torch.device("cpu")
    small = list(subject.smallest_first())
    for k, sketch in enumerate([*small, *subject.drawn(LARGE)]):
        for dtype in TOLERANCE:
            made = sketch.to_torch(device, getattr(torch, dtype))
            rng, large = subject.rng(21, k), k >= len(small)
            for n in (n for n in ((2,) if large else EXAMPLES) if large or n * prod(sketch.shape) <= NUMBERS):
                for size in MAGNITUDES[dtype][: 1 if n > 130 else None]:
                    G = (rng.standard_normal((n, *sketch.shape)) * size).astype(dtype)
                    how = f"apply of {n} arrays of size {size:g} in {dtype}"
                    yield _same(made.apply, sketch.apply, (G,), dtype, how), at(sketch)
            for bad in BAD:
                G = rng.standard_normal((3, *sketch.shape)).astype(dtype)
                yield passed_on(lambda x, made=made: made.apply(torch.from_numpy(x)), (G,), 1, bad), at(sketch)
            G = np.stack(list(parts(rng.standard_normal(sketch.shape)).values())).astype(dtype)
            how = f"apply of arrays of special kinds in {dtype}"
            yield _same(made.apply, sketch.apply, (G,), dtype, how), at(sketch)
            if len(sketch.shape) != 2:
                continue
            if hasattr(made, "apply_outer"):
                yield from outer_tries(lambda u, v, made=made: _torch(made.apply_outer, u, v), sketch, rng, dtype)
            for n, tokens in ((2, 3),) if large else TOKENS:
                u, v = (rng.standard_normal((n, tokens, d)).astype(dtype) for d in sketch.shape)
                how = f"apply_outer of {n} examples with {tokens} tokens in {dtype}"
                if hasattr(made, "apply_outer"):
                    yield _same(made.apply_outer, sketch.apply_outer, (u, v), dtype, how), at(sketch)
                if hasattr(made, "apply_rows"):
                    index = rng.integers(sketch.shape[0], size=(n, tokens))
                    how = f"apply_rows of {n} examples with {tokens} tokens in {dtype}"
                    yield _same(made.apply_rows, _rows(sketch), (index, v), dtype, how), at(sketch)


def _torch(apply_outer: Callable[..., Any], *arrays: Array) -> Array:
    import torch

    return np.asarray(apply_outer(*(torch.from_numpy(x) for x in arrays)))


def _rows(sketch: Any) -> Callable[[Array, Array], Array]:
    """What apply_rows must give: every token's v goes to one row."""
    rows = np.eye(sketch.shape[0])
    return lambda index, v: np.asarray(sketch.apply_outer(rows[index], v))


def _same(ours: Callable[..., Any], theirs: Callable[..., Any], arrays: tuple[Array, ...], dtype: str, how: str) -> Any:
    """Contiguous tensors, ones with strides, and transposed ones, as a model's activations have them."""
    import torch

    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays]
    wanted = np.asarray(theirs(*wide), dtype=np.float64)
    size = np.prod([np.abs(x).sum(axis=tuple(range(1, x.ndim))) for x in wide if x.dtype.kind == "f"], axis=0)
    for layout in ("contiguous", "strided", "transposed"):
        tensors = [torch.from_numpy(x.copy()) for x in arrays]
        if layout == "strided":
            tensors = [torch.stack([x, x], dim=-1)[..., 0] for x in tensors]
        if layout == "transposed":
            tensors = [x.transpose(0, -1).contiguous().transpose(0, -1) for x in tensors]
        before = [x.clone() for x in tensors]
        got = ours(*tensors)
        if not isinstance(got, torch.Tensor) or tuple(got.shape) != wanted.shape:
            given = tuple(got.shape) if hasattr(got, "shape") else type(got).__name__
            return f"{how} gives {given}, not {wanted.shape}"
        if any(not torch.equal(x, y) for x, y in zip(tensors, before, strict=True)):
            return f"{how} changed its argument"
        if str(got.dtype) != f"torch.{dtype}":
            return f"{how} gives {got.dtype}"
        kept = got.clone()
        ours(*(x + 1 if x.is_floating_point() else x for x in tensors))
        if not torch.equal(got, kept):
            return f"{how}: a second call changes the answer of the first"
        off = np.abs(got.detach().double().numpy() - wanted).max(axis=1, initial=0)
        limit = TOLERANCE[dtype] * (size + np.abs(wanted).max(axis=1, initial=0))
        if not (off <= limit).all():
            return f"{how}, {layout}, is {off.max():.3g} off the sketch's own"
    return None
