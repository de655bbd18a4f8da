"""demo --pretrained sudoku: a trained model solves a hard board loop step by loop step, and what shaped each step."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from sdi.backends import room
from sdi.cli.progress import status
from sdi.cli.tables import spark
from sdi.inputs.checkpoints import find_checkpoints
from sdi.report.write import write_report
from sdi.run.one_thread import one_thread
from sdi.scores import late_mass
from sdi.store.store import Store


def demo_sudoku(console: Console, report: Path | None = None) -> dict[str, Any]:
    """Show the pretrained Sudoku model at work, and return what was shown as plain values. report: a file to write."""
    experiment = room("experiments.sudoku")
    settings, checkpoints = experiment.pretrained()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sdi-demo-") as scratch, one_thread(), status() as tell:
        seen = experiment.look(
            settings, checkpoints, Path(scratch), lambda p: tell(f"influence, checkpoint {p.checkpoint}, {p.side}")
        )
        if report is not None:
            write_report(
                report,
                seen["result"],
                store=Store(scratch),
                checkpoints=find_checkpoints(checkpoints),
                show=experiment.show,
                train=experiment.make_loader(seen["train"]),
                query=experiment.make_loader(seen["test"]),
                title="sdi: Sudoku, pretrained",
            )
    size, count = settings.size, settings.model_config().parameter_count
    console.print(
        f"[bold]1  A looped transformer that learned Sudoku[/], {size}x{size}\n"
        f"   {count:,} parameters, one block, {settings.loops} loop steps on average in training.\n"
        f"   It solves [bold]{seen['solved']:.0%}[/] of {settings.queries} test boards, harder than those it learned.\n"
    )
    console.print("[bold]2  One of the slowest, loop step by loop step[/]: [green]right[/], [red]wrong[/], givens dim")
    boards = [
        board(f"step {t}", seen["puzzle"], answer, seen["solution"], size)
        for t, answer in zip(seen["steps"], seen["answers"], strict=True)
    ]
    console.print(Columns(boards, padding=(1, 3)))
    console.print("\n[bold]3  When training data acts on it[/]; a column is a loop step")
    for name, curve in seen["energy"].items():
        console.print(Text.assemble(f"   {name:<22}", spark(curve.tolist()), f"  late mass {late_mass(curve):.0%}"))
    console.print(
        f"\n[bold]4  The training board that acts on it most[/], of {settings.sample}\n"
        f"   TracIn {seen['tracin']:+.3g} of {seen['mass']:.3g} in all, over {len(checkpoints)} checkpoints"
    )
    console.print(Text.assemble("   SDI per loop step     ", spark(seen["trajectory"].tolist())))
    train = seen["strongest"]
    console.print(board("", train["puzzle"], train["puzzle"], train["solution"], size))
    console.print(f"\n{time.perf_counter() - began:.0f} s. The whole: [bold]sdi experiment sudoku FOLDER[/].")
    return dict(seen)


def board(title: str, puzzle: Any, answer: Any, solution: Any, size: int) -> Text:
    """A board as text: givens dim, right answers green, wrong ones red, blanks as dots.

    >>> print(board("", [1, 0, 2, 0], [1, 2, 2, 0], [1, 2, 2, 1], 2))
       1 2
       2 ·
    """
    out = Text(f"   {title}\n" if title else "")
    for k, (given, said, right) in enumerate(zip(puzzle, answer, solution, strict=True)):
        style = "dim" if given else "dim" if not said else "green" if said == right else "red"
        out.append("   " if k % size == 0 else " ")
        out.append(str(said) if said else "·", style)
        if k % size == size - 1 and k + 1 < len(puzzle):
            out.append("\n")
    return out
