"""Growth: exponents of time and memory, fitted over a few sizes, beside what the analysis says.

For a pass over B examples of L tokens and width d, tau steps, P matrices in the loop, sketched to m numbers each:

    time     tau B L P (d^2 + L d)      forward and backward: matrices, and attention's products
           + tau B L P (m log m + d)    sketches by FFT; or tau B P d^2 (L + 1) by GEMM, whatever m is
    memory   tau B L P d (hooks), or B L P d + tau B L d (recompute)      + tau B P m, the features
    scoring  n D per query step in time; in memory one block of the n training examples, whatever n is

Sizes are chosen so that one term stands out; where two have a say, the exponent lies between theirs. Overheads that
do not grow pull exponents down a little: a fit whose interval comes within TOLERANCE of the range agrees with it. One
whose interval is wider than NOISY either way says nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch

from sdi.inputs.looped_config import LoopedConfig
from sdi.result.stream_top import stream_top

from ..harness.chart import Chart, Series
from ..harness.interleave import Progress, interleave
from ..harness.intervals import Interval, exponent
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Case
from ..work.contenders import contender, seconds
from ..work.time_by_parameter import Profile
from ..workers.peak import peak_of_a_run
from ..workers.remote import Remote
from .stream import POINT, Size, make_store, peak_memory

TOLERANCE, NOISY = 0.15, 0.5


@dataclass(frozen=True)
class Sweep:
    """One variable over some values, and the exponents that the analysis gives, from and to, of what is measured."""

    variable: str
    values: tuple[int, ...]
    base: Case
    says: dict[str, tuple[float, float]]

    def case(self, value: int) -> Case:
        config = self.base.config
        match self.variable:
            case "B":
                return replace(self.base, examples=value)
            case "tau":
                return replace(self.base, config=replace(config, tau=value))
            case "d":
                return replace(self.base, config=replace(config, d=value))
            case "L":
                return replace(self.base, tokens=value, config=replace(config, length=value))
            case "m":
                return replace(self.base, m=value)
        raise ValueError(f"variable must be one of B, tau, L, d, m, got {self.variable!r}")


def loop_only(d: int, tau: int, tokens: int, examples: int, m: int, seed: int, core: int = 2) -> Case:
    """A looped GPT with nothing around the loop but a small table and head, so that the loop is what grows."""
    config = LoopedConfig.looped_gpt(
        vocab=64, classes=64, d=d, heads=4, prelude=0, coda=0, core=core, tau=tau, length=tokens
    )
    return Case("gpt", config, examples, tokens, m, seed)


def sweeps(quick: bool = False, seed: int = 0) -> list[Sweep]:
    """Time is of a pass with hooks; for m, of its sketches alone, by the FFT route."""
    usual = loop_only(128, 8, 64, 8, 1024, seed)
    one, both = (1.0, 1.0), (0.0, 1.0)
    found = [
        Sweep("B", (4, 8, 16, 32), usual, {"time": one, "hooks": one, "recompute": one}),
        Sweep("tau", (4, 8, 16, 32), usual, {"time": one, "hooks": one, "recompute": both}),
        Sweep("L", (64, 128, 256, 512), replace(usual, examples=4), {"time": (1, 2), "hooks": one, "recompute": one}),
        Sweep("d", (64, 128, 256, 512), replace(usual, examples=4), {"time": (1, 2), "hooks": one, "recompute": both}),
        Sweep("m", (1024, 2048, 4096, 8192), loop_only(512, 4, 8, 16, 1024, seed, core=1),
              {"time": (1.0, 1.2), "hooks": both, "recompute": both}),
    ]  # fmt: skip
    if not quick:
        return found
    small = loop_only(16, 2, 8, 2, 32, seed, core=1)
    values = {"B": (1, 2, 4), "tau": (1, 2, 4), "L": (8, 16, 32), "d": (8, 16, 32), "m": (32, 64, 128)}
    return [replace(sweep, values=values[sweep.variable], base=small) for sweep in found]


def measure_growth(rounds: int = 5, quick: bool = False, seed: int = 0, progress: Progress = lambda _: None) -> Record:
    """Time: the minimum over rounds, sizes taking turns. Memory: one run of each size."""
    torch.set_num_threads(THREADS)
    figures: dict[str, list[float]] = {}
    rows, charts = [], []
    for sweep in sweeps(quick, seed):
        found = {"time": _times(sweep, rounds, progress), **_peaks(sweep, progress)}
        rows += _rows(sweep.variable, sweep.values, found, sweep.says)
        charts.append(_chart(sweep.variable, sweep.values, found))
        figures |= {
            f"{what} {sweep.variable}={v}": [y]
            for what, ys in found.items()
            for v, y in zip(sweep.values, ys, strict=True)
        }
    values = (200, 400, 800) if quick else (8000, 16000, 32000, 64000)
    found = _scoring(values, rounds, progress)
    rows += _rows("n", values, found, {"time": (1.0, 1.0), "scoring": (0.0, 0.0)})
    charts.append(_chart("n", values, found))
    figures |= {f"{what} n={v}": [y] for what, ys in found.items() for v, y in zip(values, ys, strict=True)}
    columns = ("in", "of", "from - to", "exponent", "analysis", "agrees", "smallest", "largest")
    table = Table("Fitted exponents with 95% intervals", columns, rows)
    settings = {"rounds": rounds, "quick": quick, "seed": seed, "tolerance": TOLERANCE}
    return Record("growth", settings, figures, [table], charts=charts)


def _times(sweep: Sweep, rounds: int, progress: Progress) -> list[float]:
    turns: dict[str, Callable[[], float]] = {}
    for value in sweep.values:
        case = sweep.case(value)
        model, batch = case.model(), case.batch()
        if sweep.variable == "m":
            turns[f"m={value}"] = partial(Profile(case, model).run, batch)
        else:
            run = contender("hooks", model, case.config, case.sketch())
            turns[f"{sweep.variable}={value}"] = partial(seconds, run, model, batch)
    return [min(times) for times in interleave(turns, rounds, lambda text: progress(f"time: {text}")).values()]


def _peaks(sweep: Sweep, progress: Progress) -> dict[str, list[float]]:
    """One process for all sizes: what it holds is given back and counted anew before each."""
    peaks: dict[str, list[float]] = {"hooks": [], "recompute": []}
    with Remote([sys.executable, "-m", "sdi.bench.workers.our_worker"]) as remote:
        for mode, found in peaks.items():
            for value in sweep.values:
                progress(f"memory, {mode}: {sweep.variable}={value}")
                remote.ask("open", case=sweep.case(value).to_dict(), contender=mode)
                found.append(peak_of_a_run(remote))
    return peaks


def _scoring(values: Sequence[int], rounds: int, progress: Progress) -> dict[str, list[float]]:
    """Streaming top-k for every step of a query over stores of n training examples. Below 1 MB counts as 1 MB."""
    turns: dict[str, Callable[[], float]] = {}
    peaks = []
    with TemporaryDirectory() as folder:
        for n in values:
            store = make_store(Path(folder) / str(n), Size(n, 4, 256, 8, 4096), lambda _: None)
            progress(f"memory of scoring: n={n}")

            def top(store: Any = store) -> float:
                began = perf_counter()
                stream_top(store, [POINT], ["q"], k=10, each_step=True)
                return perf_counter() - began

            with peak_memory() as peak:
                top()
            peaks.append(max(peak[0], 1e6))
            turns[f"n={n}"] = top
        times = interleave(turns, rounds, lambda text: progress(f"time: {text}"))
    return {"time": [min(t) for t in times.values()], "scoring": peaks}


WHAT = {
    "time": "time",
    "hooks": "memory, hooks",
    "recompute": "memory, recompute",
    "scoring": "memory of scoring",
}


def verdict(found: Interval, low: float, high: float) -> str:
    """Whether a fit agrees with the range that the analysis gives.

    >>> [verdict(Interval(x, half), 1.0, 1.0) for x, half in [(0.8, 0.1), (0.7, 0.1), (1.0, 2.0)]]
    ['yes', 'no', 'too noisy']
    """
    if not found.half <= NOISY:
        return "too noisy"
    return "yes" if found.low - TOLERANCE <= high and found.high + TOLERANCE >= low else "no"


def _rows(
    variable: str, values: Sequence[int], found: dict[str, list[float]], says: dict[str, tuple[float, float]]
) -> list[list[str]]:
    rows = []
    for what, ys in found.items():
        fit, (low, high) = exponent(values, ys), says[what]
        analysis = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        ends = [f"{y * 1e3:.1f} ms" if what == "time" else f"{y / 1e6:.1f} MB" for y in (ys[0], ys[-1])]
        rows.append(
            [variable, WHAT[what], f"{values[0]} - {values[-1]}", str(fit), analysis,
             verdict(fit, low, high), *ends]
        )  # fmt: skip
    return rows


def _chart(variable: str, values: Sequence[int], found: dict[str, list[float]]) -> Chart:
    lines = [Series(WHAT[what], list(values), [y / ys[0] for y in ys]) for what, ys in found.items()]
    lines.append(Series(f"in proportion to {variable}", list(values), [v / values[0] for v in values], guide=True))
    return Chart(f"Growth with {variable}", variable, f"/ value at {variable}={values[0]}", lines)
