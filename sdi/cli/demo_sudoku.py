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
    with one_thread():
        picked = experiment.pick_board(settings, checkpoints)
        _show_board(console, picked, settings)  # at once: influence takes longer
        traced = _trace(experiment, settings, checkpoints, picked, report)
    _show_influence(console, traced, settings, len(checkpoints))
    console.print(f"\n{time.perf_counter() - began:.0f} s. The whole: [bold]sdi experiment sudoku FOLDER[/].")
    return {**picked._asdict(), **traced}


def _trace(experiment: Any, settings: Any, checkpoints: Any, picked: Any, report: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="sdi-demo-") as scratch, status() as tell:
        traced: dict[str, Any] = experiment.trace_board(
            settings,
            checkpoints,
            picked,
            Path(scratch),
            lambda p: tell(f"influence, checkpoint {p.checkpoint} of {p.checkpoints}, {p.side}"),
        )
        if report is not None:
            write_report(
                report,
                traced["result"],
                store=Store(scratch),
                checkpoints=find_checkpoints(checkpoints),
                show=experiment.show,
                train=experiment.make_loader(picked.boards.train),
                query=experiment.make_loader(picked.boards.test),
                title="sdi: Sudoku, pretrained",
            )
    return traced


def _show_board(console: Console, picked: Any, settings: Any) -> None:
    size, count = settings.size, settings.model_config().parameter_count
    console.print(
        f"[bold]1  A looped transformer that learned Sudoku[/], {size}x{size}\n"
        f"   {count:,} parameters, one block, {settings.loops} loop steps on average in training.\n"
        f"   It solves [bold]{picked.solved:.0%}[/] of {settings.queries} test boards, harder than those it learned.\n"
    )
    console.print("[bold]2  One of the slowest, loop step by loop step[/]: [green]right[/], [red]wrong[/], givens dim")
    boards = [
        board(f"step {t}: {wrong_cells(answer, picked.solution)}", picked.puzzle, answer, picked.solution, size)
        for t, answer in zip(picked.steps, picked.answers, strict=True)
    ]
    console.print(Columns(boards, padding=(1, 3)))


def _show_influence(console: Console, traced: dict[str, Any], settings: Any, checkpoints: int) -> None:
    console.print("\n[bold]3  When training data acts on it[/]; a column is a loop step")
    for name, curve in traced["energy"].items():
        console.print(Text.assemble(f"   {name:<22}", spark(curve.tolist()), f"  late mass {late_mass(curve):.0%}"))
    console.print(
        f"\n[bold]4  The training board that acts on it most[/], of {settings.sample}\n"
        f"   TracIn {traced['tracin']:+.3g} of {traced['mass']:.3g} in all, over {checkpoints} checkpoints"
    )
    console.print(Text.assemble("   SDI per loop step     ", spark(traced["trajectory"].tolist())))
    train = traced["strongest"]
    console.print(board("", train["puzzle"], train["puzzle"], train["solution"], settings.size))


def wrong_cells(answer: Any, solution: Any) -> str:
    """How many cells of an answer are wrong, as words, for a screen without colours.

    >>> wrong_cells([1, 2, 3], [1, 3, 2]), wrong_cells([1], [1])
    ('2 wrong', 'solved')
    """
    wrong = sum(said != right for said, right in zip(answer, solution, strict=True))
    return f"{wrong} wrong" if wrong else "solved"


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
