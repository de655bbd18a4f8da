"""Every kernel of the fast backend sketches what the definition says: both routes, compiled and in PyTorch.

    gradient of a linear map   sum over tokens of outer(u, v), by fft and by gemm
    gradient of an embedding   sum over tokens of outer(one_hot(index), v)

A model of test size has a few tokens, and its layers take one route only: here each is called by name, and the one
that chooses between them, with 1 to 1,030 tokens, in float64 and float32, for sizes m that have a compiled transform
(powers of 2, with factors 3 and 5, even and odd) and some that have none. The definition is TensorSketch.apply, an
explicit signed sum over entries, of the summed outer products in float64. The other sketches' twins are called as the
sinks call them, and compared with what their class does. The workspace is so small that all work in parts. Errors are
measured against the sum of |u| |v| over tokens, the size of all that is added up.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sdi.run.one_thread import one_thread
from sdi.sketch.load import SHIPPED, load_sketch
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.statement import Verdict, statement
from .fast_agrees import kernels, tensor

Array = np.ndarray
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
SIZES = (((5, 7), 4), ((20, 12), 30), ((9, 33), 64), ((6, 8), 14), ((12, 10), 45), ((8, 7), 13))
OTHERS = tuple(kind for kind in SHIPPED if kind not in ("tensor", "exact"))
ROUTES = ("fft", "gemm", "outer", "matrix", "rows")  # "outer" chooses; "matrix" is given the gradient
TOKENS, EXAMPLES = (1, 40, 101), 3
LONG = 1030  # more than the compiled gemm copies at a time


@dataclass(frozen=True)
class Job:
    """A kernel ("compiled", "torch", or "twin" for other sketches), a route (of ROUTES), and its input."""

    kernel: str
    route: str
    dtype: str
    sketch: Any
    u: Array  # (n, T, d_out); for rows, (n, T) indices
    v: Array  # (n, T, d_in)

    @property
    def name(self) -> str:
        sizes = f"shape {self.sketch.shape}, m={self.sketch.size}, {self.v.shape[1]} tokens"
        return f"{self.route} by {self.kernel}, {self.dtype}, {sizes}"

    @property
    def outer(self) -> Array:
        """The factor of every token that stands for rows, (n, T, d_out)."""
        return np.eye(self.sketch.shape[0])[self.u] if self.route == "rows" else self.u


def by_kernel(job: Job) -> Array:
    """What the kernel adds to what is there."""
    native, plain = (importlib.import_module(f"sdi.fast.sketching.{name}") for name in ("compiled", "tensor_sketch"))
    workspace = importlib.import_module("sdi.fast.sketching.workspace").Workspace
    v, u = tensor(job.v, job.dtype), tensor(job.u, "" if job.route == "rows" else job.dtype)
    twin = importlib.import_module("sdi.fast.sketching.device_sketch").TorchSketch
    make = {"compiled": native.make_tensor_sketch, "torch": plain.TorchTensorSketch, "twin": twin}[job.kernel]
    tables = make(job.sketch, v.device, v.dtype)
    acc = v.new_ones(len(v), job.sketch.size)
    work = workspace(v.device, 1 << 10)  # so small that there are parts of examples and tokens
    if job.route == "matrix":
        tables.add_matrix(acc, u.transpose(1, 2) @ v, work)
    else:
        verb = {"fft": "add_by_fft", "gemm": "add_by_gemm", "outer": "add_outer", "rows": "add_rows"}[job.route]
        getattr(tables, verb)(acc, u, v, work)
    return np.asarray(acc.numpy()) - 1


def jobs(thorough: bool) -> Iterator[Job]:
    rng = np.random.default_rng(0)
    many = [(size, LONG) for size in (SIZES if thorough else (SIZES[0], SIZES[-1]))]
    for ((d, d2), m), tokens in [*product(SIZES, (*TOKENS, 2100) if thorough else TOKENS), *many]:
        sketch = TensorSketch.draw((d, d2), m, name="kernel")
        u, v = rng.standard_normal((EXAMPLES, tokens, d)), rng.standard_normal((EXAMPLES, tokens, d2))
        index = rng.integers(d, size=(EXAMPLES, tokens))
        for kernel, route, dtype in product(kernels(), ROUTES, TOLERANCE):
            yield Job(kernel, route, dtype, sketch, index if route == "rows" else u, v)
        if (d, d2) == SIZES[-1][0]:
            for kind, route, dtype in product(OTHERS, ("outer", "matrix", "rows"), TOLERANCE):
                cls: Any = load_sketch(kind)
                other = cls.draw((d, d2), m, seed=0, name="kernel")
                yield Job("twin", route, dtype, other, index if route == "rows" else u, v)


def _cases(claim: Callable[[Job], Array], thorough: bool) -> Iterator[tuple[Any, str]]:
    known: dict[tuple[int, bool], tuple[Any, Array, Array]] = {}  # the sketch, kept alive for its id, and its truth
    for job in jobs(thorough):
        key = (id(job.sketch), job.route == "rows")
        if key not in known:
            known[key] = (job.sketch, *_definition(job))
        _, wanted, size = known[key]
        error = (np.abs(claim(job) - wanted).max(-1) / size).max()
        yield error <= TOLERANCE[job.dtype], f"{job.name}: off by {error:.1e}"


def _definition(job: Job) -> tuple[Array, Array]:
    """The sketch of the summed products, and the size of all that is added up; the same for every kernel."""
    u = job.outer
    size = (np.linalg.norm(u, axis=-1) * np.linalg.norm(job.v, axis=-1)).sum(-1)
    return job.sketch.apply(np.einsum("nti,ntj->nij", u, job.v)), size


def _changed(which: Callable[[Job], bool], change: Callable[[Job], Array]) -> Callable[[Job], Array]:
    """The kernels with some of them changed."""
    return lambda job: change(job) if which(job) else by_kernel(job)


def _too_large(job: Job) -> Array:
    return 1.01 * by_kernel(job)


def _first(tokens: int) -> Callable[[Job], Array]:
    return lambda job: by_kernel(replace(job, u=job.u[:, :tokens], v=job.v[:, :tokens]))


_first_16, _first_64 = _first(16), _first(64)


def _without_signs(job: Job) -> Array:
    rows, cols = (type(s)(s.h, np.abs(s.s), s.m) for s in (job.sketch.rows, job.sketch.cols))
    return by_kernel(Job(job.kernel, job.route, job.dtype, TensorSketch(rows, cols), job.u, job.v))


@statement(
    "kernels.agree",
    paper="Main text, algorithm, TensorSketch of a sum of outer products",
    method="float64",
    claim=by_kernel,
    mutants={
        "the fastest fft 1 % too large": _changed(lambda j: (j.route, j.kernel) == ("fft", kernels()[0]), _too_large),
        "PyTorch's fft 1 % too large": _changed(lambda j: (j.route, j.kernel) == ("fft", "torch"), _too_large),
        "gemm 1 % too large in float32": _changed(lambda j: (j.route, j.dtype) == ("gemm", "float32"), _too_large),
        "rows of an embedding 1 % too large": _changed(lambda j: j.route == "rows", _too_large),
        "tokens after the 16th ignored": _changed(lambda j: j.kernel == kernels()[0], _first_16),
        "tokens after the 16th ignored by PyTorch's gemm": _changed(
            lambda j: (j.route, j.kernel) == ("gemm", "torch"), _first_16
        ),
        "tokens after the 64th ignored by the one that chooses": _changed(lambda j: j.route == "outer", _first_64),
        "tokens after the 1024th ignored by gemm": _changed(lambda j: j.route == "gemm", _first(1024)),
        "1 % too large at odd m": _changed(lambda j: j.sketch.size % 2 == 1, _too_large),
        "other sketches 1 % too large for an embedding": _changed(
            lambda j: (j.kernel, j.route) == ("twin", "rows"), _too_large
        ),
        "no signs": _without_signs,
        "replaces what is there": lambda job: by_kernel(job) - 1,
    },
)
def kernels_agree(claim: Callable[[Job], Array], thorough: bool) -> Verdict:
    """Every kernel, by FFT, by GEMM and for rows, compiled or not, gives the definition's sketch for any tokens."""
    with one_thread():
        return Verdict.all(_cases(claim, thorough), " and ".join(kernels()))
