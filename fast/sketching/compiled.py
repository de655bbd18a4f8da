"""The compiled version of `tensor_sketch`, for x86-64 CPUs with AVX2 and for aarch64.

`tensor_sketch.c` is built when the package is installed and gcc or clang is there; without them, on other devices, or
with SDI_NATIVE=0 in the environment, PyTorch does the same work. Both give the same numbers, up to rounding.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from math import log2, prod

import numpy as np
import torch
from torch import Tensor

from sdi.sketch.shipped.count_and_tensor import TensorSketch

from .tensor_sketch import TorchTensorSketch
from .workspace import Workspace

# Nanoseconds on two CPU cores, float32 (`sdi-bench kernels` prints them): per point and log2 of a transform, per number
# counted, per multiply-add and per entry of the gradient scattered.
POINT_NS, COUNT_NS, MADD_NS, SCATTER_NS = 0.03, 0.15, 0.013, 0.35

GROUP = 16  # tokens that are transformed together, in float32
MOST = 1 << 15  # points of a transform; its buffers come to 192 bytes a point for each thread
LONG = 1024  # tokens of the gemm route that are copied at a time
PARTS = 16  # pieces of work that a batch is cut into, so that all cores have some


def _fields(numbers: str, addresses: str) -> list[tuple[str, type]]:
    """The fields of a struct: whole numbers, then addresses."""
    return [(name, ctypes.c_longlong) for name in numbers.split()] + [
        (name, ctypes.c_void_p) for name in addresses.split()
    ]


class Tables(ctypes.Structure):
    """The struct `Tables` of tensor_sketch.c: a sketch's buckets, signs and transform, as addresses."""

    _fields_ = _fields("m rows cols passes", "row_buckets col_buckets order radices row_signs col_signs twiddles")


class Work(ctypes.Structure):
    """The struct `Work` of tensor_sketch.c: what one call reads and writes, and its sizes."""

    _fields_ = _fields(
        "n tokens parts width threads acc_stride u_example u_token v_example v_token", "acc u v sums scratch"
    )


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None if it was not built, SDI_NATIVE=0 is set, or this CPU cannot run it."""
    spec = find_spec("sdi.fast.sketching._tensor_sketch") if os.environ.get("SDI_NATIVE") != "0" else None
    if spec is None or spec.origin is None:
        return None
    sizes = (ctypes.c_longlong(ctypes.sizeof(structure)) for structure in (Tables, Work))
    try:
        found = ctypes.CDLL(spec.origin)
        return found if found.usable(*sizes) else None
    except (OSError, AttributeError):  # built elsewhere or from older code, or OpenMP's library is missing
        return None


def kernels() -> str:
    """Which kernels are in use on a CPU: "compiled" or "torch"."""
    return "torch" if library() is None else "compiled"


def make_tensor_sketch(sketch: TensorSketch, device: torch.device, dtype: torch.dtype) -> TorchTensorSketch:
    """A TensorSketch on a device: compiled where possible (a CPU and a supported m and dtype), else in PyTorch."""
    compiled = library() if device.type == "cpu" and dtype in (torch.float32, torch.float64) else None
    return TorchTensorSketch(sketch, device, dtype) if compiled is None else NativeTensorSketch(sketch, dtype, compiled)


class NativeTensorSketch(TorchTensorSketch):
    """A TensorSketch with both routes compiled; the fft route where m has no prime factor above 5 and is not huge."""

    sums_first = False  # a scatter from registers costs less than to store the sum and load it again

    def __init__(self, sketch: TensorSketch, dtype: torch.dtype, library: ctypes.CDLL) -> None:
        super().__init__(sketch, torch.device("cpu"), dtype)
        name = str(dtype).removeprefix("torch.")
        self._fft, self._gemm = library[f"add_by_fft_{name}"], library[f"add_by_gemm_{name}"]
        split = radices(self.m) if self.m <= MOST else None
        self.transforms = split is not None
        whole = [self.rows.h, self.cols.h, frequencies(self.m, split or []), split or [0]]
        real = [self.rows.s, self.cols.s, twiddles(self.m, split or [])]
        held = [torch.as_tensor(x, dtype=torch.int32) for x in whole] + [torch.as_tensor(x, dtype=dtype) for x in real]
        self._held = held  # the addresses below stay valid as long as these live
        self._tables = Tables(self.m, *self.shape, len(split or []), *(x.data_ptr() for x in held))

    def fft_ns(self, tokens: int) -> float:
        if not self.transforms:
            return super().fft_ns(tokens)
        padded = -(-tokens // GROUP) * GROUP
        return padded * (2 * POINT_NS * self.m * log2(max(self.m, 2)) + COUNT_NS * sum(self.shape))

    def gemm_ns(self, tokens: int) -> float:
        return prod(self.shape) * (MADD_NS * tokens + SCATTER_NS)

    def add_by_fft(self, acc: Tensor, u: Tensor, v: Tensor, work: Workspace) -> None:
        if not self.transforms:
            return super().add_by_fft(acc, u, v, work)
        n, tokens, _ = u.shape
        parts = max(1, min(PARTS // max(n, 1), tokens // (4 * GROUP)))
        threads = max(1, min(torch.get_num_threads(), n * parts))
        scratch = work.take("points", (threads, 3, self.m, 64 // self.dtype.itemsize), self.dtype)
        return self._call(self._fft, acc, u, v, work, parts, self.m, threads, scratch.data_ptr())

    def add_by_gemm(self, acc: Tensor, u: Tensor, v: Tensor, work: Workspace) -> None:
        n, tokens, rows = u.shape
        parts = max(1, PARTS // max(n, 1))
        threads = max(1, min(torch.get_num_threads(), n * parts))
        scratch = work.take("tiles", (threads, min(tokens, LONG), -(-rows // parts) + 4 + GROUP), self.dtype)
        for t in range(0, tokens, LONG):
            some = slice(t, t + LONG)
            self._call(self._gemm, acc, u[:, some], v[:, some], work, parts, 2 * self.m, threads, scratch.data_ptr())

    def _call(
        self,
        kernel: ctypes._NamedFuncPointer,
        acc: Tensor,
        u: Tensor,
        v: Tensor,
        work: Workspace,
        parts: int,
        width: int,
        threads: int,
        scratch: int,
    ) -> None:
        if not (acc.is_cpu and u.is_cpu and v.is_cpu):
            devices = ", ".join(str(x.device) for x in (acc, u, v))
            raise RuntimeError(f"compiled kernels are for tensors on the CPU, got {devices}; set SDI_NATIVE=0")
        u, v = self._dense(u), self._dense(v)
        assert (acc.stride(1), acc.dtype, v.shape[:2]) == (1, self.dtype, u.shape[:2])
        chunk = max(1, work.max_bytes // (parts * width * self.dtype.itemsize))
        for i in range(0, len(u), chunk):
            a, x, y = acc[i : i + chunk], u[i : i + chunk], v[i : i + chunk]
            sums = work.take("sums", (len(x), parts, width), self.dtype)
            job = Work(
                len(x), x.shape[1], parts, width, threads, a.stride(0), x.stride(0), x.stride(1), y.stride(0),
                y.stride(1), a.data_ptr(), x.data_ptr(), y.data_ptr(), sums.data_ptr(), scratch
            )  # fmt: skip
            kernel(ctypes.byref(job), ctypes.byref(self._tables))

    def _dense(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        return x if x.stride(2) == 1 else x.contiguous()


def radices(m: int) -> list[int] | None:
    """The passes of a transform of m points, until 1, 2, 4 or 8 are left; None where a prime factor is above 5.

    >>> radices(2048), radices(720), radices(7)
    ([4, 4, 4, 4], [5, 3, 3, 4], None)
    """
    found = []
    for radix in (5, 3):
        while m % radix == 0:
            found.append(radix)
            m //= radix
    while m > 8 and m % 4 == 0:
        found.append(4)
        m //= 4
    return found if m in (1, 2, 4, 8) else None


def frequencies(m: int, split: list[int]) -> np.ndarray:
    """Which frequency each point of the transform holds.

    >>> frequencies(16, [4]).tolist()
    [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]
    """
    if not split:
        return np.arange(m)
    radix, *rest = split
    part = frequencies(m // radix, rest)
    return np.concatenate([radix * part + r for r in range(radix)])


def twiddles(m: int, split: list[int]) -> np.ndarray:
    """All but the first root of unity of every butterfly, the longest pass first."""
    passes = [np.zeros(0)]
    for radix in split:
        roots = np.exp(-2j * np.pi / m * np.outer(np.arange(m // radix), np.arange(1, radix)))
        passes.append(np.stack([roots.real, roots.imag], axis=-1).ravel())
        m //= radix
    return np.concatenate(passes)
