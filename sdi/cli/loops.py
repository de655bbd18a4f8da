"""`sdi loops` in the terminal: what a loss calls more than once, and the lines that describe it as a loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

import sdi
from sdi.inputs.batches import name_examples
from sdi.inputs.config import script_of
from sdi.inputs.script import load_script
from sdi.printable import printable


def find(config: Path) -> sdi.FoundLoops:
    """`sdi.find_loops` on the first batch of a script's query()."""
    script = load_script(script_of(config))
    batch = next(iter(script.query()), None)
    if batch is None:
        raise ValueError(f"query() of {script_of(config)} must give at least one batch, got none")
    return sdi.find_loops(script.model(), script.loss, name_examples(batch).batch)


def show_loops(console: Console, found: sdi.FoundLoops) -> None:
    _show(console, str(found).split("\n"))
    if found.loops:
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in _keys(found[0]).items()]
        _show(console, ["", "the first in a config:", *lines])


def _show(console: Console, lines: list[str]) -> None:
    console.print(Text("\n".join(map(printable, lines))), soft_wrap=True)


def loops_json(found: sdi.FoundLoops) -> dict[str, Any]:
    loops = [
        {**_keys(one), "tau": one.tau, "numbers": one.numbers, "count": one.calls, "line": one.line,
         "remarks": list(one.remarks)}
        for one in found
    ]  # fmt: skip
    return {"picture": found.picture, "loops": loops, "notes": list(found.notes)}


def _keys(one: sdi.FoundLoop) -> dict[str, Any]:
    loop = one.loop
    keys = {"body": list(loop.body), "step": loop.step, "end": loop.end}
    keys["calls"] = None if loop.calls == "one" else loop.calls
    keys |= {"cycle": loop.cycle, "inner": loop.inner}
    return {key: value for key, value in keys.items() if value is not None}
