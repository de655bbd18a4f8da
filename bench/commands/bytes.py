"""What a byte buys: error of SDI against the bytes of an example and step, for widths m and number types of the store.

One batch of a looped GPT is both training and query set, as two sides of a store: gradients and steps are sketched,
rounded as a store of that type rounds them, and scored, with the store's own error bars. The error is relative to the
exact scores, Frobenius, mean over sketches; beside it, how many exact scores the 95% intervals hold, and which share of
the bars' variance is the rounding's. Bytes are those of a step's numbers and their scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sdi.backends import room
from sdi.scores.products import sdi
from sdi.scores.standard_error import Z95, Sizes, sizes, standard_error
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.store.shard_format import encoded
from sdi.store.store import Store

from ..harness.chart import Chart, Series
from ..harness.interleave import Progress
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Case
from .fidelity import relative, small_gpt

DTYPES = ("float32", "float16", "int8")
WIDTHS = (32, 64, 128, 256, 512, 1024, 2048)
Array = np.ndarray


class Point(NamedTuple):
    """One width in one number type."""

    dtype: str
    m: int
    bytes: int  # of an example and step
    errors: Sequence[float]  # of SDI, one for each sketch
    held: float  # share of exact scores within 1.96 standard errors
    rounding: float  # its share of the bars' variance


class ByteWork(NamedTuple):
    """The model and batch, the widths, and sketches for each point."""

    case: Case
    widths: Sequence[int]
    seeds: int


def byte_work(quick: bool, widths: Sequence[int] | None, seeds: int, seed: int) -> ByteWork:
    """The small looped GPT; quick: tiny."""
    if quick:
        return ByteWork(small_gpt(16, 2, 1, 2, 6, seed), tuple(widths or (16, 64)), 2)
    case = small_gpt(d=64, tau=8, core=2, examples=6, tokens=32, seed=seed)
    return ByteWork(case, tuple(sorted(set(widths or WIDTHS))), seeds)


def measure_bytes(work: ByteWork, progress: Progress = lambda _: None) -> Record:
    """Errors and error bars of every width in every number type."""
    torch.set_num_threads(THREADS)
    case, fast = work.case, room("fast")
    model, batch, loop = case.model(), case.batch(), case.config.loop()
    progress("exact scores")
    truth = fast.exact_scores(model, fast.token_cross_entropy, [batch], [batch], loop=loop).sdi
    points = []
    for m in work.widths:
        found: dict[str, list[tuple[float, float, float, int]]] = {dtype: [] for dtype in DTYPES}
        for k in range(work.seeds):
            progress(f"m={m}, sketch {k + 1} of {work.seeds}")
            sketch = case.sketch(k, m)
            query = fast.featurize(model, fast.token_cross_entropy, batch, loop=loop, sketch=sketch, audit="off")
            train = Features(query.g, query.tau, query.blocks, query.sketch)
            for dtype in DTYPES:
                found[dtype].append(_of(sketch, train, query, dtype, truth))
        for dtype, each in found.items():
            errors, held, wider, size = zip(*each, strict=True)
            points.append(Point(dtype, m, size[0], errors, float(np.mean(held)), float(np.mean(wider))))
    return _record(work, points)


def _of(
    sketch: SketchMap, train: Features, query: Features, dtype: str, truth: Array
) -> tuple[float, float, float, int]:
    """Error, share of exact scores within the bars, rounding's share of their variance, and bytes, of one sketch."""
    store = Store(Path("never written"), {"config": {"dtype": dtype}}, sketch)
    g, phi = store.rounded("checkpoint", "train", train), store.rounded("checkpoint", "query", query)
    scores = sdi(g, phi)
    eta = np.ones(len(sketch.blocks))
    a, b = sizes(g, store.dtype, whole=True), sizes(phi, store.dtype, whole=False)
    bar, without = (
        standard_error(sketch, x, y, eta, "estimated")
        for x, y in ((a, b), (Sizes(a.values, a.squares, None), Sizes(b.values, b.squares, None)))
    )
    held = np.abs(scores - truth) <= Z95 * bar
    arrays = encoded(query, store.dtype, Path("shard"))
    kept = sum(array.nbytes for name, array in arrays.items() if name.startswith("values"))
    return (
        relative(scores, truth), float(held.mean()), float(1 - np.square(without).sum() / np.square(bar).sum()),
        kept // int(np.prod(query.values.shape[:2])),
    )  # fmt: skip


def _record(work: ByteWork, points: Sequence[Point]) -> Record:
    rows = [
        [p.dtype, str(p.m), f"{p.bytes:,}", f"{np.mean(p.errors):.4f} ± {np.std(p.errors):.4f}", f"{p.held:.1%}",
         f"{p.rounding:.1e}"]
        for p in sorted(points, key=lambda p: p.bytes)
    ]  # fmt: skip
    columns = ("type", "m", "bytes", "SDI error", "within 95% bars", "rounding / variance")
    lines = [
        Series(dtype, [p.bytes for p in points if p.dtype == dtype],
               [float(np.mean(p.errors)) for p in points if p.dtype == dtype],
               [float(np.std(p.errors)) for p in points if p.dtype == dtype])
        for dtype in DTYPES
    ]  # fmt: skip
    figures: dict[str, Any] = {f"error m={p.m} {p.dtype}": list(p.errors) for p in points}
    figures |= {f"bytes m={p.m} {p.dtype}": [p.bytes] for p in points}
    figures |= {f"held m={p.m} {p.dtype}": [p.held] for p in points}
    figures |= {f"rounding m={p.m} {p.dtype}": [p.rounding] for p in points}
    return Record(
        kind="bytes",
        settings={"model": work.case.says.rpartition(", m=")[0], "sketches": work.seeds, "seed": work.case.seed},
        figures=figures,
        tables=[Table("What a byte of an example and step buys", columns, rows)],
        charts=[Chart("What a byte buys", "bytes per example and step", "relative SDI error", lines)],
    )
