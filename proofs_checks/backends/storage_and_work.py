"""What a sketch stores per example and step, and what it costs per token, counted rather than estimated.

Storage: a sketched feature has m numbers for every tensor of more than m entries and all entries of the others,
against |w_body| numbers for the dense one. For the looped GPT of the scalability experiment at m = 2048: 25 tensors,
51,200 numbers against 29,491,200, which is 576 times fewer.

Work for one outer product delta a^T of d_out x d_in, counted with a number type that counts its operations while the
library's own sketches run on it, and a radix-2 FFT (m a power of two) that computes the right answer:

    two CountSketches   d_out + d_in sign products, as many additions
    three FFTs          (m/2) log2 m products and m log2 m additions each, and m products between them
    by definition       2 d_out d_in products (entry and sign), d_out d_in additions

So the FFT route is of order d_out + d_in + m log m. That is less work for the 768 wide matrices of the looped GPT at
m = 2048, and more for the 128 wide ones of the Sudoku model: which route is cheaper depends on the layer.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Iterator
from math import log2, prod
from typing import Any, NamedTuple

import numpy as np

from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.shipped.count_and_tensor import TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Shapes = dict[str, tuple[int, ...]]


def body_shapes(config: LoopedConfig) -> Shapes:
    """The parameters of the loop."""
    parts = tuple(f"{part}." for part in config.loop().body)
    return {name: shape for name, shape in config.shapes().items() if name.startswith(parts)}


def stored(shapes: Shapes, m: int) -> int:
    """Numbers per example and step: at most m for every tensor."""
    return sum(min(m, prod(shape)) for shape in shapes.values())


def _one_sketch_for_all(shapes: Shapes, m: int) -> int:
    return m


def _every_tensor_m(shapes: Shapes, m: int) -> int:
    return m * len(shapes)


def _storage_cases(claim: Callable[[Shapes, int], int], thorough: bool) -> Iterator[tuple[Any, str]]:
    small = LoopedConfig.looped_gpt(d=24, heads=2, vocab=11, classes=11)
    for config, m in [(small, 8), (small, 64), (LoopedConfig.parity(d=16, heads=4), 32), (LoopedConfig.sudoku(), 64)]:
        shapes = body_shapes(config)
        features = SketchMap.draw(shapes, m=m).apply({name: np.ones((2, 3, *shape)) for name, shape in shapes.items()})
        said = claim(shapes, m)
        yield features.shape == (2, 3, said), f"d={config.d}, m={m}: features have {features.shape[-1]}, claimed {said}"
    shapes = body_shapes(LoopedConfig.looped_gpt())
    body, said = sum(map(prod, shapes.values())), claim(shapes, 2048)
    yield SketchMap.draw(shapes, m=2048).size == said, f"looped GPT: claimed {said}"
    found = len(shapes), body, said, body / said
    yield found == (25, 29_491_200, 51_200, 576.0), f"looped GPT: tensors, body, stored, ratio are {found}"


@statement(
    "storage",
    paper="Main text, paragraph on systems",
    method="exact",
    claim=stored,
    mutants={"m for all tensors together": _one_sketch_for_all, "m even for tensors below m": _every_tensor_m},
)
def storage_is_m_per_tensor(claim: Callable[[Shapes, int], int], thorough: bool) -> Verdict:
    """Sketched features hold min(m, entries) numbers per tensor, example and step; looped GPT: 576 times fewer."""
    return Verdict.all(
        _storage_cases(claim, thorough), "looped GPT at m=2048: 51,200 of 29,491,200 numbers, 576x fewer"
    )


class Work(NamedTuple):
    products: float
    additions: float


class Counted:
    """A complex number that counts the operations it takes part in."""

    products = 0
    additions = 0

    def __init__(self, value: complex) -> None:
        self.value = value

    def __add__(self, other: Any) -> Counted:
        Counted.additions += 1
        return Counted(self.value + _value(other))

    def __sub__(self, other: Any) -> Counted:
        Counted.additions += 1
        return Counted(self.value - _value(other))

    def __mul__(self, other: Any) -> Counted:
        Counted.products += 1
        return Counted(self.value * _value(other))

    __radd__, __rmul__ = __add__, __mul__


def _value(x: Any) -> complex:
    return x.value if isinstance(x, Counted) else complex(x)


def counted(run: Callable[[TensorSketch, Array, Array], Array], *on: Any) -> tuple[Array, Work]:
    """What a computation on Counted numbers gives, and what it took."""
    Counted.products = Counted.additions = 0
    values = np.array([_value(x) for x in run(*on)])
    return values, Work(Counted.products, Counted.additions)


def fft(x: list[Any], sign: int = -1) -> list[Any]:
    """Radix 2; the unscaled inverse for sign = +1."""
    m = len(x)
    if m == 1:
        return x
    even, odd = fft(x[0::2], sign), fft(x[1::2], sign)
    turned = [odd[k] * cmath.exp(sign * 2j * cmath.pi * k / m) for k in range(m // 2)]
    return [e + t for e, t in zip(even, turned, strict=True)] + [e - t for e, t in zip(even, turned, strict=True)]


def by_fft(sketch: TensorSketch, u: Array, v: Array) -> Array:
    """The sketch of outer(u, v); the division by m of the inverse is left to the caller."""
    a, b = ([Counted(_value(x)) for x in side] for side in (sketch.rows.apply(u), sketch.cols.apply(v)))
    a, b = fft(a), fft(b)
    return np.array(fft([x * y for x, y in zip(a, b, strict=True)], sign=+1), dtype=object)


def by_definition(sketch: TensorSketch, u: Array, v: Array) -> Array:
    return sketch.apply(u[:, None] * v[None, :])


class WorkClaim(NamedTuple):
    fft: Callable[[int, int, int], Work]
    definition: Callable[[int, int, int], Work]


def fft_work(d_out: int, d_in: int, m: int) -> Work:
    return Work(d_out + d_in + 3 * m / 2 * log2(m) + m, d_out + d_in + 3 * m * log2(m))


def definition_work(d_out: int, d_in: int, m: int) -> Work:
    return Work(2 * d_out * d_in, d_out * d_in)


def _work_cases(claim: WorkClaim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for d_out, d_in, m in [
        (3, 5, 1),
        (2, 2, 2),
        (5, 3, 8),
        (16, 9, 16),
        (7, 30, 64),
        *([(99, 80, 512)] if thorough else []),
    ]:
        u, v = rng.standard_normal(d_out), rng.standard_normal(d_in)
        cu, cv = (np.array([Counted(x) for x in side], dtype=object) for side in (u, v))
        sketch = TensorSketch.draw((d_out, d_in), m, name="work")
        where = f"{d_out} x {d_in}, m={m}"
        values, work = counted(by_fft, sketch, cu, cv)
        direct, direct_work = counted(by_definition, sketch, cu, cv)
        right = sketch.apply(np.outer(u, v))
        yield np.allclose(values / m, right, atol=1e-12), f"{where}: the counted FFT does not give the sketch"
        yield np.allclose(direct, right, atol=1e-12), f"{where}: the counted definition does not give the sketch"
        said = claim.fft(d_out, d_in, m)
        yield work == said, f"{where}: the FFT route took {work}, claimed {said}"
        said = claim.definition(d_out, d_in, m)
        yield direct_work == said, f"{where}: the definition took {direct_work}, claimed {said}"
    wide, narrow = (sum(claim.fft(d, d, 2048)) / sum(claim.definition(d, d, 2048)) for d in (768, 128))
    yield wide < 1 < narrow, f"FFT over definition at m=2048: {wide:.2f} for 768 x 768, {narrow:.2f} for 128 x 128"


@statement(
    "work",
    paper="Main text, cost of TensorSketch",
    method="exact",
    claim=WorkClaim(fft_work, definition_work),
    mutants={
        "no log m": WorkClaim(lambda d, d2, m: Work(d + d2 + 4 * m, d + d2 + 3 * m), definition_work),
        "two FFTs only": WorkClaim(
            lambda d, d2, m: Work(d + d2 + m * log2(m) + m, d + d2 + 2 * m * log2(m)), definition_work
        ),
        "the definition costs d_out + d_in": WorkClaim(fft_work, lambda d, d2, m: Work(d + d2, d + d2)),
    },
)
def work_is_counted(claim: WorkClaim, thorough: bool) -> Verdict:
    """One outer product by FFT takes d_out + d_in + m log m operations in order, by definition d_out d_in."""
    return Verdict.all(_work_cases(claim, thorough))
