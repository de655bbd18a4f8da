"""The kernels by other compilers and for other CPUs: clang, without OpenMP, and aarch64 in an emulator.

What is missing is skipped; on Debian: apt-get install clang gcc-aarch64-linux-gnu qemu-user.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from paths import ROOT
from torch import Tensor

from sdi.fast.sketching.compiled import NativeTensorSketch, Tables, Work
from sdi.fast.sketching.tensor_sketch import TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.shipped.count_and_tensor import TensorSketch

SOURCE = ROOT / "fast" / "sketching" / "tensor_sketch.c"
DRIVER = ROOT / "tests" / "data" / "other_cpus" / "run_kernel.c"
FLAGS = ["-O3", "-std=gnu11", "-Wno-psabi", "-Wall", "-Wno-unknown-pragmas", "-Werror"]
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}
WIDTHS = [6, 45, 512, 640, 2048]  # every radix and every last pass
CPU = torch.device("cpu")
pytestmark = pytest.mark.slow


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


here = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64", "arm64"), reason="PyTorch does the work here")


def compile_with(compiler: str, *arguments: Any) -> None:
    subprocess.run([compiler, *FLAGS, *map(str, arguments), "-lm"], check=True, capture_output=True)


class Emulated:
    """A library of kernels, each call of which is one run of `run_kernel` in an emulator."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.folder = command, folder

    def __getitem__(self, name: str) -> Callable[[Any, Any], None]:
        _, _, route, dtype = name.split("_")

        def call(work: Any, tables: Any) -> None:
            job, on = work._obj, tables._obj
            size = 4 if dtype == "float32" else 8
            reach = {
                side: (job.n - 1) * example + (job.tokens - 1) * token + wide
                for side, example, token, wide in (
                    ("u", job.u_example, job.u_token, on.rows),
                    ("v", job.v_example, job.v_token, on.cols),
                )
            }
            part = -(-on.rows // job.parts) + 20
            scratch = job.threads * (3 * on.m * 64 if route == "fft" else part * job.tokens * size)
            held = (job.n - 1) * job.acc_stride + on.m
            arrays = [
                bytes(job), bytes(on),
                ctypes.string_at(job.u, reach["u"] * size), ctypes.string_at(job.v, reach["v"] * size),
                bytes(job.n * job.parts * job.width * size), bytes(scratch),
                ctypes.string_at(on.row_buckets, on.rows * 4), ctypes.string_at(on.col_buckets, on.cols * 4),
                ctypes.string_at(on.order, on.m * 4), ctypes.string_at(on.radices, max(on.passes, 1) * 4),
                ctypes.string_at(on.row_signs, on.rows * size), ctypes.string_at(on.col_signs, on.cols * size),
                ctypes.string_at(on.twiddles, self.twiddles(on) * size), ctypes.string_at(job.acc, held * size),
            ]  # fmt: skip
            given, found = self.folder / "in", self.folder / "out"
            given.write_bytes(b"".join(len(x).to_bytes(8, "little") + x for x in arrays))
            subprocess.run([*self.command, route, dtype, str(given), str(found)], check=True)
            ctypes.memmove(job.acc, found.read_bytes(), held * size)

        return call

    @staticmethod
    def twiddles(on: Tables) -> int:
        """How many numbers the transform's roots of unity are."""
        count, m = 0, on.m
        for radix in (ctypes.c_int * on.passes).from_address(on.radices) if on.passes else ():
            count, m = count + 2 * (radix - 1) * (m // radix), m // radix
        return count


def assert_is_the_oracles(library: Any, m: int, dtype: torch.dtype, threads: int = 1) -> None:
    random = torch.Generator().manual_seed(m)
    n, tokens = 2, 37
    u, v = (torch.randn(n, tokens, d, generator=random, dtype=torch.float64) for d in (21, 38))
    sketch = TensorSketch.draw((21, 38), m)
    theirs = torch.zeros(n, m, dtype=torch.float64)
    TorchTensorSketch(sketch, CPU, torch.float64).add_by_gemm(theirs, u, v, Workspace(CPU, 1 << 20))
    made = NativeTensorSketch(sketch, dtype, library)
    scale: Tensor = (u.norm(dim=-1) * v.norm(dim=-1)).sum(dim=1)
    for route in (made.add_by_fft, made.add_by_gemm):
        ours = torch.zeros(n, m, dtype=dtype)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            route(ours, u.to(dtype), v.to(dtype), Workspace(CPU, 1 << 20))
        finally:
            torch.set_num_threads(before)
        assert ((ours - theirs).norm(dim=1) <= TOLERANCE[dtype] * scale).all()


@here
@needs("clang")
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_built_by_clang_without_openmp_it_gives_the_oracles_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    compile_with("clang", "-fPIC", "-shared", SOURCE, "-o", tmp_path / "kernels.so")
    library = ctypes.CDLL(str(tmp_path / "kernels.so"))
    sizes = (ctypes.c_longlong(ctypes.sizeof(structure)) for structure in (Tables, Work))
    if not library.usable(*sizes):
        pytest.skip("this CPU has no AVX2")
    for m in WIDTHS:
        assert_is_the_oracles(library, m, dtype, threads=2)


@needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_on_aarch64_it_gives_the_oracles_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    program = tmp_path / "run_kernel"
    compile_with("aarch64-linux-gnu-gcc", "-static", f"-I{SOURCE.parent}", DRIVER, "-o", program)
    for m in WIDTHS:
        assert_is_the_oracles(Emulated(["qemu-aarch64", str(program)], tmp_path), m, dtype)
