"""Microbenchmarks of the sketch routes and the score kernels: `make bench`. Skipped otherwise; timing fails no test.

A group is one shape, with both routes in it; the route that the cost model picks is named in the test's id. Whether it
is the faster one is the verdict that `sdi-bench kernels` prints, which `make bench` runs after this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sdi.bench.commands.kernels import SHAPES, compiled, prepare
from sdi.bench.harness.machine import THREADS
from sdi.scores.products import sdi, step_matrix, tracin

M = 2048
needs_compiled = pytest.mark.skipif(not compiled(), reason="the compiled kernels were not built")


@pytest.mark.parametrize("route", ["fft", "gemm"])
@pytest.mark.parametrize("shape", SHAPES[::2], ids=lambda shape: "{}x{}-{}-tokens".format(*shape))
@pytest.mark.parametrize("kernels", ["torch", pytest.param("compiled", marks=needs_compiled)])
def test_route(benchmark: Any, shape: tuple[int, int, int], route: str, kernels: str) -> None:
    torch.set_num_threads(THREADS)
    tables, run = prepare(shape, M, kernels == "compiled")
    benchmark.group = "{}x{}, {} tokens: the cost model picks {}".format(*shape, tables.route(shape[2]))
    benchmark(run, tables.add_by_fft if route == "fft" else tables.add_by_gemm)


@pytest.mark.parametrize("score", [tracin, sdi, step_matrix], ids=lambda score: score.__name__)
def test_scores(benchmark: Any, score: Any) -> None:
    n, q, tau, D = 512, 8, 32, 16384
    random = np.random.default_rng(0)
    g, g_query = (random.standard_normal((k, D), dtype=np.float32) for k in (n, q))
    phi, phi_query = (random.standard_normal((k, tau, D), dtype=np.float32) for k in (16, q))
    benchmark.group = f"scores, {q} queries of {tau} steps, D={D}"
    pairs = {tracin: (g, g_query), sdi: (g, phi_query), step_matrix: (phi, phi_query)}
    benchmark(score, *pairs[score])
