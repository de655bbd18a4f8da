"""Variants: every shipped sketch, and any of your own, on one looped model: error against bytes and against time.

One batch is both training and query set; the error is that of SDI against the exact scores, relative Frobenius, mean
over sketch seeds. Bytes are those of the float32 features that are stored for an example and step. Time is that of
featurising, step-resolved, over a plain forward and backward pass: at each width all sketches and the plain pass take
turns, and the minimum over the rounds counts. A point is on the front if no other has at most its error at at most
its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch

from sdi.backends import room
from sdi.sketch.load import SHIPPED, sketch_text
from sdi.sketch.sketch_map import SketchMap

from ..harness.chart import Chart, Series
from ..harness.interleave import Progress, interleave
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Case
from ..work.contenders import contender, seconds
from .fidelity import relative, small_gpt

WIDTHS = (64, 128, 256, 512, 1024)
EXACT = "exact"
FLOAT32 = 4


@dataclass(frozen=True)
class Point:
    """One sketch at one width."""

    sketch: str
    m: int
    size: int  # numbers per example and step
    tables: int  # bytes of its randomness
    errors: Sequence[float]  # of SDI, one per seed
    time: float  # over plain

    @property
    def bytes(self) -> int:
        return FLOAT32 * self.size

    @property
    def error(self) -> float:
        return float(np.mean(self.errors))


@dataclass(frozen=True)
class VariantWork:
    """The model and batch, the sketches by name or import path, their widths; seeds per point and rounds."""

    case: Case
    sketches: Sequence[str]
    widths: Sequence[int]
    seeds: int
    rounds: int


def variant_work(
    quick: bool = False,
    sketches: Sequence[str] | None = None,
    widths: Sequence[int] | None = None,
    seeds: int = 5,
    rounds: int = 5,
    seed: int = 0,
) -> VariantWork:
    """The small looped GPT and every shipped sketch; quick: tiny."""
    names = tuple(dict.fromkeys(sketches or SHIPPED))
    if quick:
        return VariantWork(small_gpt(32, 2, 1, 2, 8, seed), names, tuple(widths or (16, 64)), 2, 1)
    case = small_gpt(d=64, tau=8, core=2, examples=4, tokens=64, seed=seed)
    return VariantWork(case, names, tuple(sorted(set(widths or WIDTHS))), seeds, rounds)


def measure_variants(work: VariantWork, progress: Progress = lambda _: None) -> Record:
    """Errors over the seeds and times over the rounds, for every sketch at every width."""
    torch.set_num_threads(THREADS)
    case = work.case
    for name in work.sketches:
        draw(case, name, min(work.widths), 0)  # a bad name is an error now, not in a minute
    model, batch, fast = case.model(), case.batch(), room("fast")
    progress("exact scores")
    exact = fast.exact_scores(model, fast.token_cross_entropy, [batch], [batch], loop=case.config.loop())
    points: list[Point] = []
    figures: dict[str, Sequence[float]] = {}
    for m in work.widths:
        here = {_short(spec): spec for spec in work.sketches if spec != EXACT or m == work.widths[0]}  # exact has no m
        first = {name: draw(case, spec, m, 0) for name, spec in here.items()}
        times = _times(model, batch, case, first, work.rounds, progress)
        figures |= {f"seconds m={m} {name}": found for name, found in times.items()}
        for name, sketch in first.items():
            progress(f"errors of {name}, m={m}")
            found = [_error(model, batch, case, sketch, exact.sdi)]
            for k in range(1, 1 if name == EXACT else work.seeds):
                found.append(_error(model, batch, case, draw(case, here[name], m, k), exact.sdi))
            figures[f"error m={m} {name}"] = found
            tables = sum(s.nbytes for s in sketch.sketches.values())
            points.append(Point(name, m, sketch.size, tables, found, min(times[name]) / min(times["plain"])))
    return _record(work, points, figures)


def draw(case: Case, sketch: str, m: int, which: int) -> SketchMap:
    """For the loop's parameters; `sketch` is a shipped name or an import path."""
    shapes = case.config.shapes()
    body = {name: shapes[name] for name in case.config.loop().select(shapes)}
    return SketchMap.draw(body, m, seed=1000 * case.seed + which, sketch=sketch)


def _short(sketch: str) -> str:
    """A name or an import path without its folder."""
    return str(sketch_text(sketch))


def _error(model: Any, batch: Any, case: Case, sketch: SketchMap, truth: Any) -> float:
    fast = room("fast")
    features = fast.featurize(
        model, fast.token_cross_entropy, batch, loop=case.config.loop(), sketch=sketch, audit="off"
    )
    return relative(fast.sdi(features, features), truth)


def _times(
    model: Any, batch: Any, case: Case, sketches: Mapping[str, SketchMap], rounds: int, progress: Progress
) -> dict[str, list[float]]:
    runs = {"plain": contender("plain", model, case.config, next(iter(sketches.values())))}
    runs |= {name: contender("hooks", model, case.config, sketch) for name, sketch in sketches.items()}
    turns: dict[str, Callable[[], float]] = {name: partial(seconds, run, model, batch) for name, run in runs.items()}
    return interleave(turns, rounds, progress)


def front(points: Sequence[Point], cost: Callable[[Point], float]) -> list[Point]:
    """The points that no other beats in error and cost.

    >>> found = [Point("a", 1, 1, 0, [3], 1.0), Point("b", 1, 2, 0, [3], 1.0), Point("c", 1, 3, 0, [1], 1.0)]
    >>> [p.sketch for p in front(found, lambda p: p.size)]
    ['a', 'c']
    """

    def beats(q: Point, p: Point) -> bool:
        return q.error <= p.error and cost(q) <= cost(p) and (q.error < p.error or cost(q) < cost(p))

    return [p for p in points if not any(beats(q, p) for q in points)]


def _record(work: VariantWork, points: Sequence[Point], figures: Mapping[str, Sequence[float]]) -> Record:
    by_bytes, by_time = front(points, lambda p: p.bytes), front(points, lambda p: p.time)
    rows = [
        [
            p.sketch,
            "-" if p.sketch == EXACT else str(p.m),
            f"{p.bytes:,}",
            f"{p.error:.1e}" if p.error < 1e-3 else f"{p.error:.4f} ± {np.std(p.errors):.4f}",
            f"{p.time:.2f}",
            f"{p.tables:,}",
            ", ".join([*["bytes"] * (p in by_bytes), *["time"] * (p in by_time)]),
        ]
        for spec in work.sketches
        for p in points
        if p.sketch == _short(spec)
    ]
    columns = ("sketch", "m", "bytes / step", "SDI error", "time / plain", "bytes of tables", "on the front of")
    table = Table("Relative SDI error, mean and standard deviation over seeds, against its price", columns, rows)
    charts = [
        _chart(points, "error against bytes", "bytes per example and step", lambda p: p.bytes),
        _chart(points, "error against time", "featurising / plain forward+backward", lambda p: p.time),
    ]
    case, c = work.case, work.case.config
    loop = sum(prod(shape) for shape in draw(case, EXACT, 1, 0).shapes.values())
    model = f"looped GPT, {loop:,} parameters in the loop, d={c.d}, {c.core} core blocks, tau={c.tau}"
    settings = {
        "model": f"{model}, B={case.examples}, L={case.tokens}",
        "seeds": work.seeds,
        "rounds": work.rounds,
        "seed": case.seed,
    }
    return Record("variants", settings, figures, [table], charts=charts)


def _chart(points: Sequence[Point], title: str, x: str, cost: Callable[[Point], float]) -> Chart:
    """A series for each sketch, over its widths; exact, which has no error, as the price at which there is none.

    Time does not rise with the width everywhere: `plot` then draws points, not lines.
    """
    lines = []
    for name in dict.fromkeys(p.sketch for p in points if p.sketch != EXACT):
        of = [p for p in points if p.sketch == name]
        lines.append(Series(name, [cost(p) for p in of], [p.error for p in of]))
    shown = [p.error for p in points if p.sketch != EXACT]
    for p in points:
        if p.sketch == EXACT and shown:
            lines.append(Series("exact: no error", [cost(p)] * 2, [min(shown), max(shown)], guide=True))
    return Chart(title, x, "relative SDI error", lines, names_at_ends=True)
