"""The elementary operations behind the cost model of `fast/tensor_sketch.py`, and whether the model picks rightly.

Each operation runs as the routes run it: float32, into buffers of cache size that are used again. The constants are
nanoseconds per element of:

    FFT_NS      a real FFT of m elements, divided by log2 m
    SCATTER_NS  signs and index_add of the gemm route, d_out x d_in elements at a time
    PRODUCT_NS  what is linear in m for each token of the fft route: two buffers cleared, spectra multiplied and summed
    MADD_NS     a multiply-add of the batched GEMM
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from time import perf_counter

import torch

from sdi.backends import room
from sdi.sketches import TensorSketch

from .chart import Chart
from .interleave import Progress
from .machine import THREADS
from .record import Record, Table

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
    code = room("fast.tensor_sketch")
    measured = measure_constants(m, repeats)
    constants = [[name, f"{ns:.4f}", f"{getattr(code, name):.4f}"] for name, ns in measured.items()]
    figures = {name: [ns] for name, ns in measured.items()}
    rows, bars, right = [], [], 0
    for shape in shapes:
        progress("routes: {} x {}, {} tokens".format(*shape))
        fft, gemm, picked = time_routes(shape, m, repeats)
        figures["{}x{} {} tokens".format(*shape)] = [fft, gemm]
        faster = "fft" if fft < gemm else "gemm"
        right += picked == faster
        lost = 0.0 if picked == faster else max(fft, gemm) / min(fft, gemm) - 1
        bars.append(("{}x{}, {} tokens: {}".format(*shape, picked), gemm / fft))
        cells = [*map(str, shape), f"{gemm / fft:.2f}", faster, picked]
        rows.append(
            [*cells, "yes" if picked == faster else f"no, +{lost:.0%}", f"{fft * 1e3:.2f}", f"{gemm * 1e3:.2f}"]
        )
    columns = ("d_out", "d_in", "tokens", "gemm / fft", "faster", "picked", "right", "fft, ms", "gemm, ms")
    tables = [
        Table(f"Cost constants, nanoseconds, m={m}", ("constant", "measured", "in the code"), constants),
        Table(f"Routes, {EXAMPLES} examples, m={m}: {right} of {len(rows)} picked rightly", columns, rows),
    ]
    chart = Chart(f"Time of gemm / fft at m={m}, and the route picked", "ratio", "", bars=bars)
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
    rows = max(1, room("fast.memory").CACHE_BYTES // (16 * m))  # as the fft route cuts its tokens
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


def time_routes(shape: tuple[int, int, int], m: int, repeats: int) -> tuple[float, float, str]:
    """Seconds of the fft and of the gemm route, and the one that the cost model picks."""
    d_out, d_in, tokens = shape
    sketch = TensorSketch.draw((d_out, d_in), m, name="bench")
    tables = room("fast.tensor_sketch").TorchTensorSketch(sketch, CPU, torch.float32)
    work = room("fast.workspace").Workspace(CPU, room("fast.memory").CACHE_BYTES)
    u, v = torch.randn(EXAMPLES, tokens, d_out), torch.randn(EXAMPLES, tokens, d_in)
    acc = torch.zeros(EXAMPLES, m)
    fft = best_of(lambda: tables.add_by_fft(acc, u, v, work), repeats)
    gemm = best_of(lambda: tables.add_by_gemm(acc, u, v, work), repeats)
    return fft, gemm, tables.route(tokens)
