"""What a sketch costs, counted while the library's own code runs.

For n examples of T tokens, the sketches of sums of T outer products of d_out x d_in at width m take

                   transforms of m points   products          signed additions    multiply-adds
    by fft         n (2 T + 1)              n T (m/2 + 1)     n T (d_out + d_in)
    by gemm                                                   n d_out d_in        n T d_out d_in
    by definition                           2 d_out d_in      d_out d_in           (one token)

The fast backend's two routes in PyTorch are counted by what they dispatch, NumPy's `apply_outer` by the transforms it
calls, and the definition by a number type that counts. The compiled transform is a chain of passes over its m points,
of at most 5 points each but for the last, of at most 8: no more passes than log2 m.

So a token costs d_out + d_in + m log m in order by fft, and d_out d_in by gemm. With 5/2 m log2 m operations for a real
transform of m points, the first is less for the 768 wide matrices of the looped GPT at m = 2048, and more for the 128
wide ones of the Sudoku model: which is cheaper depends on the layer.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from math import log2, prod
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from sdi.run.one_thread import one_thread
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.statement import Verdict, statement
from .fast_agrees import tensor

Array = np.ndarray
SIZES = ((3, 5, 1), (2, 2, 2), (5, 3, 8), (16, 9, 15), (7, 30, 64), (24, 18, 200))  # d_out, d_in, m


class Work(NamedTuple):
    """How much of each; a product of complex numbers is one product."""

    transforms: int = 0
    products: int = 0
    additions: int = 0
    madds: int = 0

    def operations(self, m: int) -> float:
        return 2.5 * self.transforms * m * log2(m) + 6 * self.products + 2 * self.additions + 2 * self.madds


def fft_work(n: int, T: int, d_out: int, d_in: int, m: int) -> Work:
    return Work(transforms=n * (2 * T + 1), products=n * T * (m // 2 + 1), additions=n * T * (d_out + d_in))


def gemm_work(n: int, T: int, d_out: int, d_in: int, m: int) -> Work:
    return Work(additions=n * d_out * d_in, madds=n * T * d_out * d_in)


def definition_work(d_out: int, d_in: int) -> Work:
    return Work(products=2 * d_out * d_in, additions=d_out * d_in)


class Claim(NamedTuple):
    fft: Callable[[int, int, int, int, int], Work] = fft_work
    gemm: Callable[[int, int, int, int, int], Work] = gemm_work
    definition: Callable[[int, int], Work] = definition_work


class Counted:
    """A number that counts the operations it takes part in."""

    products = 0
    additions = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, other: Any) -> Counted:
        Counted.additions += 1
        return Counted(self.value + _value(other))

    def __mul__(self, other: Any) -> Counted:
        Counted.products += 1
        return Counted(self.value * _value(other))

    __radd__, __rmul__ = __add__, __mul__


def _value(x: Any) -> float:
    return x.value if isinstance(x, Counted) else float(x)


def counted(run: Callable[..., Array], *on: Any) -> tuple[Array, Work]:
    """What a computation on Counted numbers gives, and what it took."""
    Counted.products = Counted.additions = 0
    values = np.array([_value(x) for x in run(*on)])
    return values, Work(products=Counted.products, additions=Counted.additions)


def dispatched(run: Callable[[], Any], m: int) -> Work:
    """What PyTorch is asked to do while this runs. Transforms of another length than m count as none."""
    mode = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    found: Counter[str] = Counter()

    def count(self: Any, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = op(*args, **(kwargs or {}))
        match op._schema.name:
            case "aten::_fft_r2c" if args[0].shape[-1] == m:
                found["transforms"] += args[0].numel() // m
            case "aten::_fft_c2r" if args[3] == m:
                found["transforms"] += out.numel() // m
            case "aten::mul" if out.is_complex():
                found["products"] += out.numel()
            case "aten::index_add_":
                found["additions"] += args[3].numel()
            case "aten::bmm":
                found["madds"] += args[0].numel() * args[1].shape[-1]
        return out

    with type("Count", (mode,), {"__torch_dispatch__": count})(), one_thread():
        run()
    return Work(**found)


def in_torch(sketch: TensorSketch, route: str, u: Array, v: Array) -> Work:
    plain = importlib.import_module("sdi.fast.sketching.tensor_sketch")
    workspace = importlib.import_module("sdi.fast.sketching.workspace").Workspace
    a, b = tensor(u), tensor(v)
    tables = plain.TorchTensorSketch(sketch, b.device, b.dtype)
    acc = b.new_zeros(len(b), sketch.m)
    add = {"fft": tables.add_by_fft, "gemm": tables.add_by_gemm}[route]
    return dispatched(lambda: add(acc, a, b, workspace(b.device, 1 << 14)), sketch.m)


def transforms_in_numpy(sketch: TensorSketch, u: Array, v: Array) -> int:
    """How many transforms of m points `apply_outer` calls."""
    found = 0
    forward, back = np.fft.rfft, np.fft.irfft

    def rfft(x: Array) -> Array:
        nonlocal found
        found += x.size // x.shape[-1] if x.shape[-1] == sketch.m else 0
        return forward(x)

    def irfft(x: Array, n: int) -> Array:
        nonlocal found
        found += x.size // x.shape[-1] if n == sketch.m else 0
        return back(x, n)

    with patch.object(np.fft, "rfft", rfft), patch.object(np.fft, "irfft", irfft):
        sketch.apply_outer(u, v)
    return found


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for d_out, d_in, m in SIZES:
        sketch = TensorSketch.draw((d_out, d_in), m, name="work")
        for n, T in ((1, 1), (2, 5), (3, 90), *([(2, 1100)] if thorough else [])):
            u, v = rng.standard_normal((n, T, d_out)), rng.standard_normal((n, T, d_in))
            where = f"{d_out} x {d_in}, m={m}, {n} examples of {T} tokens"
            for route, said in (("fft", claim.fft(n, T, d_out, d_in, m)), ("gemm", claim.gemm(n, T, d_out, d_in, m))):
                took = in_torch(sketch, route, u, v)
                yield took == said, f"{where}: {route} took {took}, claimed {said}"
            called, said = transforms_in_numpy(sketch, u, v), claim.fft(n, T, d_out, d_in, m)
            yield called == said.transforms, f"{where}: apply_outer took {called} transforms, claimed {said.transforms}"
        a, b = (np.array([Counted(x) for x in side[0, 0]], dtype=object) for side in (u, v))
        values, took = counted(sketch.apply, a[:, None] * b[None, :])
        right = sketch.apply(np.outer(u[0, 0], v[0, 0]))
        yield np.allclose(values, right, atol=1e-12), f"{where}: the counted definition does not give the sketch"
        took = took._replace(products=took.products + d_out * d_in)  # the outer product itself
        said = claim.definition(d_out, d_in)
        yield took == said, f"{where}: the definition took {took}, claimed {said}"
    for m in range(2, 4097):
        passes = importlib.import_module("sdi.fast.sketching.compiled").radices(m)
        if passes is not None:
            rest = m // prod(passes)
            short = rest * prod(passes) == m and max(passes, default=1) <= 5 and rest <= 8
            yield short and len(passes) + (rest > 1) <= log2(m), f"m={m}: passes of {passes} points, and {rest} at last"
    wide, narrow = (
        claim.fft(1, 128, d, d, 2048).operations(2048) / claim.gemm(1, 128, d, d, 2048).operations(2048)
        for d in (768, 128)
    )
    yield wide < 1 < narrow, f"fft over gemm at m=2048: {wide:.2f} for 768 x 768, {narrow:.2f} for 128 x 128"


def _three_a_token(n: int, T: int, d_out: int, d_in: int, m: int) -> Work:
    return fft_work(n, T, d_out, d_in, m)._replace(transforms=3 * n * T)


def _scattered_by_token(n: int, T: int, d_out: int, d_in: int, m: int) -> Work:
    return gemm_work(n, T, d_out, d_in, m)._replace(additions=n * T * d_out * d_in)


def _products_of_all(n: int, T: int, d_out: int, d_in: int, m: int) -> Work:
    return fft_work(n, T, d_out, d_in, m)._replace(products=n * T * m)


@statement(
    "work",
    paper="Main text, cost of TensorSketch",
    method="exact",
    claim=Claim(),
    mutants={
        "an inverse transform for every token": Claim(fft=_three_a_token),
        "products of all m frequencies": Claim(fft=_products_of_all),
        "gemm scatters every token": Claim(gemm=_scattered_by_token),
        "the definition costs d_out + d_in": Claim(definition=lambda d, d2: Work(products=d + d2, additions=d + d2)),
    },
)
def work_is_counted(claim: Claim, thorough: bool) -> Verdict:
    """Counted: by fft, 2 T + 1 transforms of m points and d_out + d_in additions a token; by gemm, d_out d_in."""
    return Verdict.all(_cases(claim, thorough))
