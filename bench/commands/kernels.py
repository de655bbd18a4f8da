"""The elementary operations behind the cost models of the sketch routes, and whether the models pick rightly.

Each operation runs as the routes run it: float32, into buffers of cache size that are used again. The constants are
nanoseconds per element, in `fast/sketching/tensor_sketch.py` of:

    FFT_NS      a real FFT of m elements, divided by log2 m
    SCATTER_NS  signs and index_add of the gemm route, d_out x d_in elements at a time
    PRODUCT_NS  what is linear in m for each token of the fft route: two buffers cleared, spectra multiplied and summed
    MADD_NS     a multiply-add of the batched GEMM

and in `fast/sketching/compiled.py`, by two runs of a whole route that differ in one size:

    POINT_NS    of two sides of m points each, divided by log2 m
    COUNT_NS    a number that is counted into its bucket
    MADD_NS     a multiply-add of the gradient
    SCATTER_NS  an entry of the gradient scattered
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from time import perf_counter
from typing import Any

import torch

from sdi.backends import room
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..harness.chart import Chart
from ..harness.interleave import Progress
from ..harness.machine import THREADS
from ..harness.record import Record, Table

SHAPES = (
    (128, 128, 81), (512, 128, 81), (128, 512, 81), (128, 128, 8), (256, 256, 128), (768, 256, 128), (512, 512, 128),
    (768, 768, 16), (768, 768, 128), (768, 768, 512), (768, 1536, 128), (768, 3072, 128), (3072, 768, 512),
)  # fmt: skip
EXAMPLES = 4
CPU = torch.device("cpu")


def measure_kernels(
    m: int = 2048,
    repeats: int = 15,
    shapes: Sequence[tuple[int, int, int]] = SHAPES,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> Record:
    torch.set_num_threads(THREADS)
    torch.manual_seed(seed)
    progress("constants of the cost model")
    measured = {"tensor_sketch": measure_constants(m, repeats)}
    if compiled():
        measured["compiled"] = measure_compiled(m, repeats)
    constants, figures = [], {}
    for code, found in measured.items():
        for name, ns in found.items():
            constants.append([f"{code}.{name}", f"{ns:.4f}", f"{getattr(room(f'fast.sketching.{code}'), name):.4f}"])
            figures[f"{code}.{name}"] = [ns]
    rows, bars, right = [], [], 0
    for shape in shapes:
        progress("routes: {} x {}, {} tokens".format(*shape))
        fft, gemm, torch_best, picked = time_routes(shape, m, repeats)
        figures["{}x{} {} tokens".format(*shape)] = [fft, gemm, torch_best]
        faster = "fft" if fft < gemm else "gemm"
        right += picked == faster
        lost = 0.0 if picked == faster else max(fft, gemm) / min(fft, gemm) - 1
        bars.append(("{}x{}, {} tokens: {}".format(*shape, picked), gemm / fft))
        cells = [*map(str, shape), f"{gemm / fft:.2f}", faster, picked]
        gain = f"{torch_best / min(fft, gemm):.2f}" if compiled() else "-"
        verdict = "yes" if picked == faster else f"no, +{lost:.0%}"
        rows.append([*cells, verdict, gain, f"{fft * 1e3:.2f}", f"{gemm * 1e3:.2f}"])
    columns = ["d_out", "d_in", "tokens", "gemm / fft", "faster", "picked", "right"]
    columns += ["PyTorch / this", "fft, ms", "gemm, ms"]
    tables = [
        Table(f"Cost constants, nanoseconds, m={m}", ("constant", "measured", "in the code"), constants),
        Table(f"Routes, {EXAMPLES} examples, m={m}: {right} of {len(rows)} picked rightly", columns, rows),
    ]
    chart = Chart(f"gemm / fft, and the route picked, m={m}", "ratio of times", "", bars=bars)
    return Record("kernels", {"m": m, "repeats": repeats, "seed": seed}, figures, tables, charts=[chart])


def best_of(run: Callable[[], object], repeats: int) -> float:
    """Seconds, the minimum after one run that is thrown away."""
    times = []
    for _ in range(repeats + 1):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times[1:])


def measure_constants(m: int, repeats: int) -> dict[str, float]:
    """The four constants of the cost model, in nanoseconds."""
    rows = max(1, room("fast.guard.memory").CACHE_BYTES // (16 * m))  # as the fft route cuts its tokens
    x, y = torch.randn(rows, m), torch.empty(rows, m)
    f, h = torch.fft.rfft(x), torch.fft.rfft(x)
    unit = torch.polar(torch.ones(f.shape), torch.rand(f.shape))  # of modulus 1: products stay finite
    d, tokens = 256, 128
    u, v = torch.randn(EXAMPLES, tokens, d), torch.randn(EXAMPLES, tokens, d)
    G, acc = torch.randn(EXAMPLES, d * d), torch.zeros(EXAMPLES, m)
    H = torch.randint(0, m, (d * d,))
    out = torch.empty(EXAMPLES, d, d)

    def product() -> None:
        y.zero_()
        y.zero_()
        h.mul_(unit).sum(dim=0)

    seconds = {
        "FFT_NS": best_of(lambda: torch.fft.rfft(x, out=f), repeats) / (x.numel() * log2(m)),
        "SCATTER_NS": best_of(lambda: acc.index_add_(1, H, G), repeats) / G.numel(),
        "PRODUCT_NS": best_of(product, repeats) / x.numel(),
        "MADD_NS": best_of(lambda: torch.bmm(u.transpose(1, 2), v, out=out), repeats) / (EXAMPLES * tokens * d * d),
    }
    return {name: s * 1e9 for name, s in seconds.items()}


def compiled() -> bool:
    return room("fast.sketching.compiled").library() is not None


def measure_compiled(m: int, repeats: int) -> dict[str, float]:
    """The constants of the compiled routes, in nanoseconds."""

    def seconds(route: str, d_out: int, d_in: int, tokens: int) -> float:
        tables, run = prepare((d_out, d_in, tokens), m)
        return best_of(lambda: run(getattr(tables, f"add_by_{route}")), repeats) / EXAMPLES

    short, long = seconds("fft", 128, 128, 128), seconds("fft", 1536, 1536, 128)
    few, many = seconds("gemm", 256, 256, 32), seconds("gemm", 256, 256, 160)
    found = {
        "POINT_NS": (short - (long - short) / 11) / (128 * 2 * m * log2(m)),
        "COUNT_NS": (long - short) / (128 * 2 * (1536 - 128)),
        "MADD_NS": (many - few) / (128 * 256 * 256),
        "SCATTER_NS": (few - (many - few) / 4) / (256 * 256),
    }
    return {name: s * 1e9 for name, s in found.items()}


def prepare(shape: tuple[int, int, int], m: int, native: bool = True) -> tuple[Any, Callable[[Any], None]]:
    """A sketch of this shape, and what runs one of its routes on random tokens."""
    d_out, d_in, tokens = shape
    sketch = TensorSketch.draw((d_out, d_in), m, name="bench")
    make = (
        room("fast.sketching.compiled").make_tensor_sketch
        if native
        else room("fast.sketching.tensor_sketch").TorchTensorSketch
    )
    work = room("fast.sketching.workspace").Workspace(CPU, room("fast.guard.memory").CACHE_BYTES)
    u, v = torch.randn(EXAMPLES, tokens, d_out), torch.randn(EXAMPLES, tokens, d_in)
    acc = torch.zeros(EXAMPLES, m)
    return make(sketch, CPU, torch.float32), lambda route: route(acc, u, v, work)


def time_routes(shape: tuple[int, int, int], m: int, repeats: int) -> tuple[float, float, float, str]:
    """Seconds of the fft and of the gemm route, of the route that PyTorch would take, and the one that is picked."""
    tables, run = prepare(shape, m)
    plain, run_plain = prepare(shape, m, native=False)
    fft = best_of(lambda: run(tables.add_by_fft), repeats)
    gemm = best_of(lambda: run(tables.add_by_gemm), repeats)
    by_torch = best_of(lambda: run_plain(plain.add_outer), repeats)
    return fft, gemm, by_torch, tables.route(shape[2])
