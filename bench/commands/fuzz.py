"""Fuzz: looped models drawn at random, each right to 1e-8 in both memory modes, or refused with one of our errors.

The oracle runs each example alone, with copies of the parameters for every step. A model that is silently wrong, or
ends in an exception that is not ours, is shrunk and saved as a script of its own.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..fuzz.check import check
from ..fuzz.description import Description
from ..fuzz.draw import draw
from ..fuzz.findings import KINDS, Finding, by_feature, by_group, refusals
from ..fuzz.script import write_script
from ..fuzz.shrink import same_fault, shrink
from ..harness.bars import Bar, judge
from ..harness.interleave import Progress
from ..harness.ledger import Ledger
from ..harness.record import Record, Table

BLOCK = 200  # models between two entries of the ledger
SHRUNK = 20  # faults that are shrunk; others are counted only
MEMORY_FILES = Path("/dev/shm")  # where there is one, stores and checkpoints of a few kB need no disk
BARS = (
    Bar("silently wrong", "wrong", "one", "<=", 0.0),
    Bar("exceptions that are not ours", "raw", "one", "<=", 0.0),
    Bar("sound models refused / sound models", "refused", "sound", "<=", 0.02),
)


@dataclass(frozen=True)
class FuzzWork:
    """models: how many. only: a feature that all of them have. keep: a folder for scripts of what went wrong."""

    models: int
    seed: int = 0
    only: str = ""
    keep: Path = Path("fuzz-faults")
    processes: int = 2


def check_one(seed: int, index: int, only: str = "") -> dict[str, Any]:
    """Draw a model and check it."""
    one = draw(seed, index, only)
    return Finding(index, one, check(one)).to_dict()


def prepare() -> None:
    """In every other process: one thread, and files in memory."""
    import torch

    torch.set_num_threads(1)
    if MEMORY_FILES.is_dir():
        tempfile.tempdir = str(MEMORY_FILES)


@contextmanager
def mapping(processes: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map`, in so many processes; one is this one."""
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=prepare) as pool:
        yield partial(pool.map, chunksize=5)


def _check_block(each: Callable[..., Iterable[Any]], work: FuzzWork, indices: range) -> list[dict[str, Any]]:
    n = len(indices)
    return list(each(check_one, [work.seed] * n, indices, [work.only] * n))


def measure_fuzz(work: FuzzWork, progress: Progress = lambda _: None, ledger: Ledger | None = None) -> Record:
    """Check every model, shrink and save what went wrong, and count."""
    ledger = ledger or Ledger()
    ledger.open({"models": work.models, "seed": work.seed, "only": work.only})
    draw(work.seed, 0, work.only)  # an unknown feature is refused before anything begins
    findings: list[Finding] = []
    with mapping(work.processes) as each:
        for first in range(0, work.models, BLOCK):
            indices = range(first, min(first + BLOCK, work.models))
            block = partial(_check_block, each, work, indices)
            rows = ledger.once(f"models {indices[0]} to {indices[-1]}", block)
            findings += [Finding.from_dict(row) for row in rows]
            progress(_so_far(findings))
        faults = [finding for finding in findings if finding.fault is not None]
        smallest = list(each(shrink_one, [f.to_dict() for f in faults[:SHRUNK]]))
    saved = save_scripts(faults[:SHRUNK], smallest, work.keep)
    return make_record(work, findings, saved)


def shrink_one(row: dict[str, Any]) -> str:
    """The smallest description with the fault of a finding, as JSON."""
    finding = Finding.from_dict(row)
    assert finding.fault is not None
    return shrink(finding.one, same_fault(finding.fault)).to_json()


def save_scripts(
    faults: Sequence[Finding], smallest: Sequence[str], keep: Path
) -> list[tuple[Finding, Description, str]]:
    """Each fault with its smallest description and the name of its script."""
    saved = []
    for finding, text in zip(faults, smallest, strict=True):
        assert finding.fault is not None
        keep.mkdir(parents=True, exist_ok=True)
        one = Description.from_json(text)
        file = keep / f"{finding.fault.kind}-{finding.index}.py"
        file.write_text(write_script(one, finding.fault))
        saved.append((finding, one, file.name))
    return saved


def _so_far(findings: Sequence[Finding]) -> str:
    groups = by_group(findings)
    parts = [f"{name} " + ", ".join(f"{of[kind]} {kind}" for kind in KINDS) for name, of in groups.items()]
    return f"{len(findings)} models: " + "; ".join(parts)


def make_record(
    work: FuzzWork, findings: Sequence[Finding], saved: Sequence[tuple[Finding, Description, str]] = ()
) -> Record:
    groups = by_group(findings)
    seconds = sum(finding.checked.seconds for finding in findings)
    tables = [
        Table(
            "Models, by the worse of their two memory modes",
            ("models", *KINDS, "all"),
            [[name, *(f"{of[kind]}" for kind in KINDS), f"{of.total()}"] for name, of in groups.items()],
        ),
        Table(
            "Runs refused, by reason",
            ("models", "reason", "hooks", "recompute"),
            [
                [group, words, f"{of['hooks']}", f"{of['recompute']}"]
                for (group, words), of in refusals(findings).items()
            ],
        ),
        Table(
            "Models, by feature",
            ("feature", *KINDS),
            [[name, *(f"{of[kind]}" for kind in KINDS)] for name, of in by_feature(findings).items()],
        ),
    ]
    if saved:
        rows = [
            [f"{f.index}", f.fault.words if f.fault else "", ", ".join(one.features), name] for f, one, name in saved
        ]
        tables.append(Table("Faults, as small as they get", ("index", "what", "features", "script"), rows))
    figures = {
        "wrong": sum(of["wrong"] for of in groups.values()),
        "raw": sum(of["raw"] for of in groups.values()),
        "refused": groups["sound"]["refused"],
        "sound": max(1, groups["sound"].total()),
    }
    settings: dict[str, Any] = {"models": work.models, "seed": work.seed}
    settings |= {"only": work.only} if work.only else {}
    settings["models per second of one process"] = f"{len(findings) / seconds:.1f}"
    return Record(
        "fuzz",
        settings,
        {name: [float(value)] for name, value in figures.items()},
        tables,
        judge(BARS, {**{name: float(value) for name, value in figures.items()}, "one": 1.0}),
    )
