"""demo --pretrained: what an influence trajectory says of a trained parity model, and controls that can refute it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sdi.backends import room
from sdi.cli.progress import status
from sdi.cli.tables import spark
from sdi.inputs.checkpoints import find_checkpoints
from sdi.report.write import write_report
from sdi.run.one_thread import one_thread
from sdi.store.store import Store

CHANCE = 0.6  # of the running parity said rightly: below this, it is not said


def demo_pretrained(console: Console, report: Path | None = None) -> Any:
    """Analyse the pretrained parity model, print the findings, and return the analysis. report: a file to write."""
    experiment = room("experiments.parity")
    settings, checkpoints = experiment.pretrained()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sdi-demo-") as scratch, one_thread(), status() as tell:
        found, result = experiment.analyse(
            settings, checkpoints, Path(scratch), lambda p: tell(f"influence, checkpoint {p.checkpoint}, {p.side}")
        )
        if report is not None:
            points = find_checkpoints(checkpoints)
            write_report(report, result, store=Store(scratch), checkpoints=points, title="sdi: parity, pretrained")
    count = settings.model_config().parameter_count
    right = ", ".join(f"[bold]{share:.1%}[/] at {n} bits" for n, share in found.accuracy.items())
    console.print(
        f"[bold]1  A looped transformer that learned parity[/] up to {settings.longest} bits\n"
        f"   {count:,} parameters, {len(checkpoints)} checkpoints. Right on strings never trained on:\n   {right}\n"
    )
    _trajectory(console, found, settings)
    _states(console, found)
    _controls(console, found)
    _automaton(console, found, settings)
    console.print(f"\n{time.perf_counter() - began:.0f} s. The whole: [bold]sdi experiment parity FOLDER[/].")
    return found


def _trajectory(console: Console, found: Any, settings: Any) -> None:
    r, n = found.probes["01"], settings.test
    which = curve_of(r)
    period, (lag, correlation) = r.sdi_period[which], r.lag[which]
    zero = "exactly zero" if found.zero_after else "[red]NOT zero[/]"
    console.print(f"[bold]2  The query 0101...[/], {n} bits, read out at step {n}; a column is a loop step")
    for name, curve in (("SDI", r.sdi[which]), ("margin", r.margin)):
        console.print(Text.assemble(f"   {name:<7}", spark(curve.tolist())))
    console.print(
        f"   SDI: {period_words(period)}; after the read-out {zero}\n"
        f"   logit margin: {period_words(r.margin_period)}\n"
        f"   the margin jumps {lag} step{'s' * (lag != 1)} after SDI peaks (correlation {correlation:.2f})\n"
    )


def _states(console: Console, found: Any) -> None:
    r = found.probes["01"]
    colours = ("blue", "yellow", "green", "magenta")
    walk = Text("   states ")
    for label in r.labels:
        walk.append(str(label), colours[label % 4])
    cosines = ", ".join(f"{x:.2f}" for x in r.cosines[:4])
    console.print("[bold]3  The state at “=” goes round[/] (k-means, k = 4)")
    console.print(walk)
    console.print(
        f"   likeliest transitions: {' → '.join(map(str, [*r.cycle, *r.cycle[:1]]))}\n"
        f"   mean cosine of states 1, 2, 3, 4 steps apart: {cosines}\n"
    )


def _controls(console: Console, found: Any) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in ("query", "automaton", "turn", "margin", "SDI", "SDI as the automaton"):
        table.add_column(head)
    for pattern, r in found.probes.items():
        period = r.sdi_period[curve_of(r)].found
        matches = "[green]yes[/]" if r.matches(curve_of(r)) else "[red]no[/]"
        turn = f"{r.turn_period:.2g}" if r.turn_period else None
        shown = (r.true_period, turn, r.margin_period.found, period)
        name = f"{pattern}..." if set(pattern) <= set("01") else pattern
        table.add_row(f"   {name}", *(str(x or "none") for x in shown), matches)
    console.print(
        "[bold]4  Periods: could the story be wrong?[/] An automaton has the period of the\n"
        "   running parity; a state that turns by the share of ones has 2n / ones.\n"
        "   mixed: the bits of 0101... in another order"
    )
    console.print(table)
    console.print()


def _automaton(console: Console, found: Any, settings: Any) -> None:
    proxy, turn = found.proxy, found.rotation
    best = max(found.automata, key=lambda a: a["accuracy"])
    both = max(turn[f"says the running parity, {order}"] for order in ("first to last", "last to first"))
    follows = turn["frequency, correlation with ones / 2n"]
    verdict = "no: it does not read the bits in turn" if both < CHANCE else "it may be: it reads the bits in turn"
    words = "does not vary" if follows is None else f"follows the number of ones: correlation {follows:.3f}"
    console.print(
        "[bold]5  States instead of the model[/]\n"
        f"   the nearest of the 4 states, and a table from state to parity: right on\n"
        f"   {proxy['out of distribution']['accuracy']:.1%} of longer alternating strings and "
        f"{proxy['test']['accuracy']:.1%} of random ones of {settings.test} bits\n"
        f"   a machine that reads the bits one by one, without the model: {best['accuracy']:.1%}\n\n"
        f"[bold]6  So is it an automaton?[/] On random strings, at every step,\n"
        f"   it says the running parity {both:.0%} of the time (chance: 50%), and the same\n"
        f"   of the bits in another order {turn['says the same of the bits in another order']:.0%} of the time\n"
        f"   its frequency {words}\n"
        f"   So: {verdict}"
    )


def curve_of(readout: Any) -> str:
    """The key of the curve to show: "able", the sum over checkpoints that solve the task; "all" if there is none."""
    return "able" if "able" in readout.sdi else "all"


def period_words(period: Any) -> str:
    """
    >>> from types import SimpleNamespace as N
    >>> period_words(N(found=4, p_phase=0.001, p_red=0.002)), period_words(N(found=None))
    ('period 4 (p = 0.002)', 'no period')
    """
    return f"period {period.found} (p = {max(period.p_phase, period.p_red):.3f})" if period.found else "no period"
