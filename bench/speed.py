"""Time: every contender on the same work, interleaved, the minimum over the rounds, as ratios with their bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from .authors import RELEASE, authors_worker
from .bars import BARS_OF_SPEED, judge
from .cases import Case, gpt, sudoku
from .contenders import contender, seconds
from .interleave import Progress, interleave
from .machine import THREADS
from .record import Record, Table
from .remote import Remote

CONTENDERS = {"gpt": ("plain", "floor", "hooks", "recompute"), "sudoku": ("plain", "floor", "hooks", "summed")}
SAYS = {
    "plain": "plain forward+backward",
    "floor": "floor: frozen, no sketch",
    "hooks": "ours, hooks",
    "recompute": "ours, recompute",
    "summed": "ours, summed over steps",
    "authors": "authors' release",
    "authors, others frozen": "authors' release, other parameters frozen",
}


def measure_speed(
    rounds: int = 3,
    quick: bool = False,
    authors: bool = True,
    works: Sequence[str] = ("gpt", "sudoku"),
    progress: Progress = lambda _: None,
) -> Record:
    """The minimum is over `rounds` rounds, after one that is thrown away."""
    torch.set_num_threads(THREADS)
    cases = {"gpt": gpt(2 if quick else 8, quick), "sudoku": sudoku(quick)}
    for name in works:
        if name not in cases:
            raise ValueError(f"work must be one of {tuple(cases)}, got {name!r}")
    figures: dict[str, list[float]] = {}
    for name in works:
        figures |= _measure(cases[name], rounds, authors, progress)
    best = {name: min(times) for name, times in figures.items()}
    settings: dict[str, Any] = {
        "rounds": rounds,
        "quick": quick,
        "authors' release": RELEASE if authors else "left out",
    }
    settings |= {name: cases[name].says for name in works}
    tables = [_table(cases[name], figures) for name in works]
    return Record("speed", settings, figures, tables, judge(BARS_OF_SPEED, best))


def _measure(case: Case, rounds: int, authors: bool, progress: Progress) -> dict[str, list[float]]:
    model, batch, sketch = case.model(), case.batch(), case.sketch()
    turns: dict[str, Callable[[], float]] = {}
    with ExitStack() as stack:
        for name in CONTENDERS[case.name]:
            run = contender(name, model, case.config, sketch)
            turns[f"{case.name} {name}"] = partial(seconds, run, model, batch)
        if authors:
            progress("the authors' release is being made ready")
            remote = stack.enter_context(authors_worker(case))
            turns[f"{case.name} authors"] = partial(_ask, remote, False)
            turns[f"{case.name} authors, others frozen"] = partial(_ask, remote, True)
        return interleave(turns, rounds, progress)


def _ask(remote: Remote, freeze_others: bool) -> float:
    return float(remote.ask("run", freeze_others=freeze_others)["seconds"])


def _table(case: Case, figures: dict[str, list[float]]) -> Table:
    rows = []
    plain = min(figures[f"{case.name} plain"])
    for name, says in SAYS.items():
        times = figures.get(f"{case.name} {name}")
        if times:
            spread = max(times) / min(times) - 1
            rows.append([says, f"{min(times):.3f}", f"{min(times) / plain:.3f}", f"+{spread:.0%}"])
    return Table(f"{case.name}: {case.says}", ("contender", "seconds, best", "/ plain", "slowest round"), rows)
