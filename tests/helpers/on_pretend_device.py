"""Run as a program: what `tests/fast/test_devices.py` asks of the pretend device, in a process of its own, as JSON."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import pretend_device
import torch
from torch import nn

import sdi.fast as fast
from sdi import Loop, SketchMap
from sdi.bench.commands.device import measure_device
from sdi.bench.work.cases import sudoku
from sdi.bench.work.device_checks import (
    CORES,
    GATED,
    OwnNorm,
    make_looped,
    make_xy,
    moved,
    square_loss,
)
from sdi.fast.rows import owners
from sdi.sketch.load import SHIPPED


def waits_of_a_later_batch(run: fast.Featurizer, batches: list[Any], device: torch.device) -> dict[str, int]:
    """What the host waits for in the last of some batches, which are on the device before; all but the first batch of a
    loader go this way, with the proof that losses are apart, and are not audited."""
    for batch in batches:
        there = moved(batch, device)
        pretend_device.waits.clear()
        run.features(there, prove=True)
    return dict(pretend_device.waits)


def waits_by_sketch(device: torch.device) -> dict[str, dict[str, int]]:
    case = sudoku(quick=True)
    loop, shapes, found = case.config.loop(), case.config.shapes(), {}
    body = {name: shapes[name] for name in loop.select(shapes)}
    for memory in ("hooks", "recompute"):
        run = fast.Featurizer(case.model().to(device), fast.token_cross_entropy, loop=loop, memory=memory)
        for name in SHIPPED:
            run.sketch, run.tables = SketchMap.draw(body, 32, sketch=name), {}
            found[f"{name}, {memory}"] = waits_of_a_later_batch(run, [case.batch(2), case.batch(3)], device)
    return found


def waits_by_core(device: torch.device) -> dict[str, dict[str, int]]:
    found = {}
    for name, core in CORES.items():
        model = make_looped(core, torch.float64).to(device)
        run = fast.Featurizer(model, square_loss, loop=GATED, memory="hooks")
        found[name] = waits_of_a_later_batch(run, [make_xy(seed, torch.float64) for seed in (1, 2)], device)
    return found


def without_double_precision(device: torch.device) -> str:
    """Featurising on a device that has no float64, as MPS: by every core, rows that are weighed included."""
    pretend_device.forbidden.add(torch.float64)
    owners.WITHOUT_DOUBLE.add(device.type)
    try:
        for core in CORES.values():
            model, batch = make_looped(core, torch.float32).to(device), moved(make_xy(1, torch.float32), device)
            fast.featurize(model, square_loss, batch, loop=GATED, memory="hooks", audit="off")
    except TypeError as error:
        return "".join(traceback.format_exception(error, limit=-3))
    finally:
        pretend_device.forbidden.clear()
    return "none was made"


def refused(device: torch.device) -> str:
    """The error of a batch that was left on the host."""
    try:
        fast.featurize(
            make_looped(OwnNorm, torch.float32).to(device), square_loss, make_xy(1, torch.float32), loop=GATED
        )
    except Exception as error:
        return str(error)
    return "nothing was refused"


def keeps_state(device: torch.device) -> str:
    """The error of a module that gives another output when it is run again, seen when the pass has ended."""

    calls = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return self.map(x) * len(calls)

    try:
        model = make_looped(Counting, torch.float32).to(device)
        loop = Loop(body="core", step="start")
        fast.featurize(model, square_loss, moved(make_xy(1, torch.float32), device), loop=loop, memory="recompute")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def main() -> None:
    torch.set_num_threads(1)
    device = pretend_device.register(Path(sys.argv[1]))
    record = measure_device(device, rounds=1, quick=True)
    found = {
        "apart": {name: x for name, (x,) in record.figures.items() if name.startswith("apart")},
        "failures": record.failures,
        "verdict": record.settings["verdict"],
        "tables": [table.title.split(":")[0] for table in record.tables],
        "waits by sketch": waits_by_sketch(device),
        "waits by core": waits_by_core(device),
        "double": without_double_precision(device),
        "mixed": refused(device),
        "state": keeps_state(device),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
