"""Plan: what `sdi.plan` says of three sizes against what the runs take: CPU time, memory, disk, ranking.

Each plan and each run has a process of its own, and they take turns. CPU time is compared, not the clock, which counts
whatever else the machine does. The plan is made from the batches of the smallest size.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file

from sdi.planning.predict import label_bytes

from ..harness.bars import BARS_OF_PLAN, judge
from ..harness.interleave import Progress
from ..harness.record import Record, Table
from ..work.cases import Case
from ..workers.remote import Remote
from .growth import loop_only

SIZES, TINY = (64, 256, 1024), (8, 16, 24)
LABELS_OF, TINY_LABELS = (20_000, 60_000), (200, 400)  # examples of one number each, whose labels are what grows
QUERIES, CHECKPOINTS = 8, 2
WHATS = {"cpu": "CPU time", "memory": "memory", "ranking": "CPU time of ranking", "disk": "disk"}
PLANNED = {"cpu": "cpu_seconds", "memory": "memory_bytes", "ranking": "score_cpu_seconds", "disk": "disk_bytes"}


def measure_plan(rounds: int, quick: bool, seed: int, tell: Progress, sizes: Sequence[int] = SIZES) -> Record:
    """Ratios of medians over rounds, planned over measured. sizes: numbers of training examples; not of a quick run."""
    case = loop_only(16, 2, 8, 4, 32, seed, core=1) if quick else loop_only(64, 8, 32, 8, 512, seed)
    sizes = TINY if quick else sizes
    figures: dict[str, list[float]] = {}
    with TemporaryDirectory(prefix="sdi-bench-plan-") as name:
        folder = Path(name)
        _save_checkpoints(case, folder)
        for k in range(rounds):
            tell(f"planning, round {k + 1} of {rounds}")
            planned = _ask(case, folder, "plan", sizes=list(sizes))["sizes"]
            for n, of in zip(sizes, planned, strict=True):
                tell(f"running n={n}, round {k + 1} of {rounds}")
                ran = _ask(case, folder, "run", n=n)
                for key, what in WHATS.items():
                    figures.setdefault(f"planned {what} n={n}", []).append(float(of[PLANNED[key]]))
                    figures.setdefault(f"measured {what} n={n}", []).append(float(ran[key]))
        tell("labels alone")
        labels = TINY_LABELS if quick else LABELS_OF
        peaks = [float(_ask(case, folder, "labels", n=n)["peak"]) for n in labels]
    rows, ratios = [], {}
    for what in WHATS.values():
        for n in sizes:
            one, other = (_median(figures[f"{kind} {what} n={n}"]) for kind in ("planned", "measured"))
            ratios[what, n] = one / other
            rows.append([what, f"{n}", _amount(what, one), _amount(what, other), _ratio(one, other)])
    label = (peaks[1] - peaks[0]) / (labels[1] - labels[0])
    figures["labels of an example"] = [label]
    said = label_bytes(CHECKPOINTS)
    rows.append(
        ["labels of an example", f"{labels[0]} - {labels[1]}", f"{said} B", f"{label:.0f} B", _ratio(said, label)]
    )
    worst = {"one": 1.0}
    for what in WHATS.values():
        of_what = [ratios[what, n] for n in sizes]
        worst |= {f"{what} highest": max(of_what), f"{what} lowest": min(of_what)}
    return Record(
        kind="plan",
        settings={"case": case.says, "queries": QUERIES, "checkpoints": CHECKPOINTS, "rounds": rounds, "seed": seed},
        figures=figures,
        tables=[Table("Planned and measured", ("what", "examples", "planned", "measured", "ratio"), rows)],
        bars=judge(BARS_OF_PLAN, worst),
    )


def _save_checkpoints(case: Case, folder: Path) -> None:
    model = case.model()
    for k in range(CHECKPOINTS):
        with torch.no_grad():
            weights = {name: x * (1 + 0.01 * k) for name, x in model.state_dict().items()}
        save_file(weights, folder / f"step-{k}.safetensors")
        (folder / f"step-{k}.json").write_text(json.dumps({"eta": 0.1}))


def _ask(case: Case, folder: Path, do: str, **more: Any) -> dict[str, Any]:
    with Remote([sys.executable, "-m", "sdi.bench.workers.plan_worker"]) as remote:
        remote.ask("open", case=case.to_dict(), folder=str(folder), queries=QUERIES)
        return remote.ask(do, **more)


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.3f}" if other else "-"


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _amount(what: str, x: float) -> str:
    return f"{x:.2f} s" if "time" in what else f"{x / 1e6:.2f} MB"
