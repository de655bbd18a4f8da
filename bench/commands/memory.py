"""Memory: peak over the model against tau, B, m and mode, each point in a fresh process; the largest batch that fits.

The sweep is on the looped GPT of 135.1M parameters. The largest batch is sought on a smaller one, where a batch of
dense phi fits at all and one of a hundred examples takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sdi.inputs.looped_config import LoopedConfig

from ..harness.bars import BARS_OF_MEMORY, judge
from ..harness.chart import Chart, Series
from ..harness.interleave import Progress
from ..harness.ledger import Ledger
from ..harness.record import Record, Table
from ..work.cases import Case, gpt
from ..work.largest_batch import largest_batch
from ..workers.environment import AUTHORS
from ..workers.peak import peak_over_model

MODES = ("dense", "hooks", "recompute")


@dataclass(frozen=True)
class Plan:
    """The sweeps (one variable each, all from one base case), and the search for the largest batch."""

    base: Case
    sweeps: Mapping[str, tuple[int, ...]]
    beside: tuple[tuple[str, int], ...]  # other contenders and their tau
    search: Case
    budget: int


def plan(quick: bool = False, seed: int = 0, budget: int | None = None) -> Plan:
    sweeps: dict[str, tuple[int, ...]]
    if quick:
        sweeps = {"tau": (2, 4), "B": (1, 2), "m": (64, 256)}
        return Plan(gpt(2, True, seed), sweeps, (("plain", 2),), gpt(4, True, seed), budget or 16 << 20)
    sweeps = {"tau": (4, 8, 16, 32), "B": (1, 2, 4, 8), "m": (512, 2048, 8192)}
    small = LoopedConfig.looped_gpt(vocab=2048, classes=2048, d=128, heads=4)
    search = Case("gpt", small, 1, 128, 2048, seed)
    return Plan(gpt(8, seed=seed), sweeps, (("plain", 16), ("authors", 16)), search, budget or 1280 << 20)


def with_value(case: Case, name: str, value: int) -> Case:
    """The case with another tau, B or m."""
    if name == "tau":
        return replace(case, config=replace(case.config, tau=value))
    return replace(case, examples=value) if name == "B" else replace(case, m=value)


def measure_memory(
    work: Plan,
    authors: bool = True,
    progress: Progress = lambda _: None,
    ledger: Ledger | None = None,
    peak: Callable[[str, Case], float] = peak_over_model,
) -> Record:
    ledger = ledger or Ledger()
    search = work.search
    ledger.open({"base": work.base.to_dict(), "sweeps": work.sweeps, "search": search.to_dict(), "budget": work.budget})

    def at(name: str, case: Case) -> float:
        key = f"{name}, {case.says}"
        value = float(ledger.once(key, lambda: peak(name, case), progress))
        progress(f"  peak over the model: {value / 1e6:.0f} MB")
        return value

    figures: dict[str, list[float]] = {}
    for name, tau in work.beside:
        if name != "authors" or authors:
            figures[f"{name} tau={tau}"] = [at(name, with_value(work.base, "tau", tau))]
    for variable, values in work.sweeps.items():
        for mode in ("hooks", "recompute"):
            for value in values:
                figures[f"{mode} {variable}={value}"] = [at(mode, with_value(work.base, variable, value))]
    for mode in MODES:
        largest = largest_batch(partial(_at_batch, at, mode, search), work.budget)
        figures[f"largest {mode}"] = [float(largest)]
    settings = {
        "model": work.base.says,
        "seed": work.base.seed,
        "authors' release": AUTHORS.release if authors else "left out",
    }
    settings["largest batch on"] = search.says
    best = {name: values[0] for name, values in figures.items() if values[0] > 0}
    tables = [_largest(work, figures), *(_table(work, v, figures) for v in work.sweeps), _beside(work, figures)]
    charts = [_chart(work, v, figures) for v in work.sweeps]
    title = f"largest batch under {work.budget / 2**20:.0f} MiB"
    charts.append(Chart(title, "examples", "", bars=[(mode, figures[f"largest {mode}"][0]) for mode in MODES]))
    return Record("memory", settings, figures, tables, judge(BARS_OF_MEMORY, best), charts)


def _at_batch(at: Callable[[str, Case], float], mode: str, case: Case, n: int) -> float:
    return at(mode, replace(case, examples=n))


def _largest(work: Plan, figures: dict[str, list[float]]) -> Table:
    dense = figures["largest dense"][0]
    rows = []
    for mode in MODES:
        n = figures[f"largest {mode}"][0]
        rows.append(
            [mode, f"{n / dense:.1f}" if dense else "-", f"{n:.0f}", {"dense": "4", "hooks": "40"}.get(mode, "-")]
        )
    title = f"Largest batch under {work.budget / 2**20:.0f} MiB over the model; {work.search.says.replace('B=1, ', '')}"
    return Table(title, ("features", "/ dense", "examples", "paper, 48 GB GPU, 135.1M"), rows)


def _table(work: Plan, variable: str, figures: dict[str, list[float]]) -> Table:
    values = work.sweeps[variable]
    rows = []
    for mode in ("hooks", "recompute"):
        peaks = [figures[f"{mode} {variable}={v}"][0] for v in values]
        rows.append([mode, f"{peaks[-1] / peaks[0]:.2f}", *(f"{p / 1e6:.0f}" for p in peaks)])
    columns = ("mode", "last / first", *(f"{variable}={v}" for v in values))
    return Table(f"Peak over the model, MB, against {variable}; otherwise {work.base.says}", columns, rows)


def _beside(work: Plan, figures: dict[str, list[float]]) -> Table:
    names = [f"{name} tau={tau}" for name, tau in work.beside if f"{name} tau={tau}" in figures]
    return Table("Beside, MB", ("contender", "peak over the model"), [[n, f"{figures[n][0] / 1e6:.0f}"] for n in names])


def _chart(work: Plan, variable: str, figures: dict[str, list[float]]) -> Chart:
    values: Sequence[int] = work.sweeps[variable]
    lines = [
        Series(mode, list(values), [figures[f"{mode} {variable}={v}"][0] / 1e6 for v in values])
        for mode in ("hooks", "recompute")
    ]
    return Chart(f"Peak memory against {variable}", variable, "MB over the model", lines)
