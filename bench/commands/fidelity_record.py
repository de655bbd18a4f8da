"""The record of `fidelity`: mean errors, slopes and the gain of spreading, beside the paper's, as tables and chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdi.inputs.looped_config import LoopedConfig

from ..harness.bars import BARS_OF_FIDELITY, judge
from ..harness.chart import Chart, Series
from ..harness.intervals import exponent, mean_interval
from ..harness.record import Record, Table
from ..work.fidelity_work import Work

PAPER = {
    "SDI": "0.0388 ± 0.0030",
    "TracIn": "0.0220 ± 0.0052",
    "slope": "-0.489",
    "conservation": "about 1e-7, absolute",
}


def make_record(work: Work, widths: dict[str, int], found: Sequence[dict[str, Any]], pilot: str) -> Record:
    """The record, from the errors of every seed. widths: the spread widths of each parameter."""
    sdi, tracin = ({m: [f["errors"][str(m)][k] for f in found] for m in work.widths} for k in (0, 1))
    at, sizes = work.spread_at, work.case.sketch(0, widths)
    spent, worst = [f["spread"][0] for f in found], max(f["conservation"] for f in found)
    slopes = [exponent(work.widths, [sdi[m][k] for m in work.widths]).value for k in range(work.seeds)]
    slope = exponent(work.widths, [float(np.mean(sdi[m])) for m in work.widths]).value
    gains = mean_interval([float(np.log(a / b)) for a, b in zip(spent, sdi[at], strict=True)])
    gain, low, high = (float(np.exp(x)) for x in (gains.value, gains.low, gains.high))
    paper = work.case.config == LoopedConfig.looped_gpt() and at == 2048
    best = {"one": 1.0, "slope": slope, "conservation": worst, "spread / equal": gain}
    if paper:  # the bars on errors are of this model
        best |= {"sdi": float(np.mean(sdi[at])), "tracin": float(np.mean(tracin[at]))}
        best |= {"sdi spread": float(np.mean(spent)), "tracin spread": float(np.mean([f["spread"][1] for f in found]))}
    beside = [
        [f"SDI error, m={at}, mean ± deviation over seeds", _mean(sdi[at]), PAPER["SDI"]],
        ["its mean, with a 95% interval", _interval(sdi[at]), "-"],
        [f"TracIn error, m={at}, mean ± deviation over seeds", _mean(tracin[at]), PAPER["TracIn"]],
        ["its mean, with a 95% interval", _interval(tracin[at]), "-"],
        ["slope of log mean SDI error against log m", f"{slope:.3f}", PAPER["slope"]],
        ["slope per seed, mean and 95% interval", str(mean_interval(slopes)), "-"],
        ["sketched conservation, relative, worst seed", f"{worst:.1e}", PAPER["conservation"]],
    ]
    batches = {b: [[f["batches"][b][k] for f in found] for k in (0, 1)] for b in found[0]["batches"]}
    by_batch = [[b, _mean(both[0]), _mean(both[1])] for b, both in batches.items()]
    equal = work.case.sketch(0, at)
    better = [
        [f"one m={at} for all", str(equal.size), _mean(sdi[at]), _mean(tracin[at])],
        [f"spread, {min(widths.values())} to {max(widths.values())}", str(sizes.size), _mean(spent),
         _mean([f["spread"][1] for f in found])],
        ["spread / equal, mean over seeds and 95% interval", f"{sizes.size / equal.size:.3f}",
         f"{gain:.3f} ({low:.3f} to {high:.3f})" if np.isfinite(high) else f"{gain:.3f}", "-"],
    ]  # fmt: skip
    tables = [
        Table(f"Beside the paper's{'' if paper else ', which are of the 135.1M model, tau=32'}",
              ("figure", "here", "paper"), beside),
        Table("Relative error, mean ± standard deviation over seeds", ("m", "SDI", "TracIn"),
              [[str(m), _mean(sdi[m]), _mean(tracin[m])] for m in work.widths]),
        Table(f"Relative error at m={at} against the number of examples, these being both training and query set",
              ("B", "SDI", "TracIn"), by_batch),
        Table("The same bytes, spread by gradient norms on a pilot batch",
              ("widths", "numbers per step", "SDI error", "TracIn error"), better),
        Table("Widths of the spread", ("parameter", "shape", "m"),
              [[name, "x".join(map(str, sizes.shapes[name])), str(m)] for name, m in widths.items()]),
    ]  # fmt: skip
    figures: dict[str, Sequence[float]] = {f"sdi m={m}": values for m, values in sdi.items()}
    figures |= {f"tracin m={m}": values for m, values in tracin.items()}
    figures |= {f"sdi B={b}": both[0] for b, both in batches.items()}
    figures |= {f"tracin B={b}": both[1] for b, both in batches.items()}
    figures |= {"sdi spread": spent, "tracin spread": [f["spread"][1] for f in found], "slope of the mean": [slope]}
    figures |= {"slope per seed": slopes, "conservation": [f["conservation"] for f in found]}
    figures |= {"seconds per seed": [f["seconds"] for f in found]}
    settings = {
        "model": work.case.says.rpartition(",")[0],
        "seeds": work.seeds,
        "seed": work.case.seed,
        "pilot": pilot,
    }
    return Record(
        "fidelity", settings, figures, tables, judge(BARS_OF_FIDELITY, best), [_chart(work, sdi, tracin, spent)]
    )


def _chart(work: Work, sdi: dict[int, list[float]], tracin: dict[int, list[float]], spent: Sequence[float]) -> Chart:
    def line(name: str, found: dict[int, list[float]]) -> Series:
        values = list(found.values())
        return Series(name, list(found), [float(np.mean(v)) for v in values], [float(np.std(v)) for v in values])

    first = float(np.mean(sdi[work.widths[0]]))
    guide = [first * (work.widths[0] / m) ** 0.5 for m in work.widths]
    lines = [
        line("SDI", sdi),
        line("TracIn", tracin),
        line("SDI, bytes spread", {work.spread_at: list(spent)}),
        Series("1 / sqrt(m)", list(work.widths), guide, guide=True),
    ]
    return Chart("Error against sketch width", "m (of each parameter, on average)", "relative error", lines)


def _interval(values: Sequence[float]) -> str:
    found = mean_interval(values)
    return f"{found.low:.4f} to {found.high:.4f}" if np.isfinite(found.half) else "-"


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=min(1, len(values) - 1)):.4f}"
