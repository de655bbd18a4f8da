"""`sdi inspect` in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from sdi.cli.tables import plain_table
from sdi.printable import printable
from sdi.run.inspect import Inspection
from sdi.units import bytes_text, seconds_text


def show_inspection(console: Console, found: Inspection) -> None:
    rows = [[name_of(p["path"]), eta_text(p["eta"]), bytes_text(p["bytes"])] for p in found.checkpoints]
    console.print(plain_table(("checkpoint", "eta", "size"), rows, right=("size",)))
    console.print()
    columns = ("route", "sketch", "calls", "outside")
    head = ["parameter", "shape", *(name for name in columns if name in found.parameters[0])]
    rows = [[p["parameter"], shape_text(p["shape"]), *(p[name] for name in head[2:])] for p in found.parameters]
    console.print(plain_table(head, rows, right=("calls", "outside")))
    console.print(f"{len(rows)} body parameters of {found.numbers:,} numbers; {found.sketched:,} kept per feature\n")
    head = ["side", "examples", "stored", "steps", "batch", "time a batch", "memory", "on disk"]
    sides = [
        (
            name, f"{s.examples:,}", f"{s.stored_examples:,}", s.steps, s.batch, seconds_text(s.seconds),
            "unknown" if s.peak_bytes is None else bytes_text(s.peak_bytes), bytes_text(s.stored_bytes),
        )
        for name, s in found.sides.items()
    ]  # fmt: skip
    console.print(plain_table(head, sides, right=head[1:]))
    console.print()
    memory = (
        "unknown here" if found.memory_bytes is None else f"about {bytes_text(found.memory_bytes)} beside the model"
    )
    console.print(f"time    about {seconds_text(found.seconds)} for what is still to be made")
    console.print(f"memory  {memory}, and {bytes_text(found.result_bytes)} for the scores")
    sizes = f"{bytes_text(found.store_bytes)} when done, {bytes_text(found.stored_bytes)} now"
    console.print(f"store   {escape(printable(found.store))}: {sizes}", soft_wrap=True)


def name_of(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def eta_text(eta: float | dict[str, float]) -> str:
    if not isinstance(eta, dict):
        return f"{eta:g}"
    return f"{min(eta.values()):g} to {max(eta.values()):g}, by parameter"


def shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
