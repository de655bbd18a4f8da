"""Peers: the same work by the authors' release, dattri's TracIn and a plain loop with torch.func, beside ours.

The work: scores of all pairs of one batch, from model and data to numbers. Every answer is compared with the exact one
first; a peer that fails or answers wrongly is shown as that, and no time of it. The others take turns, each in a
process of its own that does nothing while others are timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from sdi.run.resident_memory import status

from ..harness.bars import BARS_OF_PEERS, judge
from ..harness.chart import Chart
from ..harness.interleave import Progress, interleave
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Case, gpt, sudoku
from ..workers.authors import authors_worker
from ..workers.environment import AUTHORS, DATTRI
from ..workers.remote import Remote, WorkerEnded, WorkerFailed

WORKS = ("gpt", "sudoku")
PATIENCE = 300.0  # seconds for one answer: a peer that takes longer fails
SLOW = 60.0  # seconds: a peer that takes longer is timed by the run that is checked, and takes no turns


@dataclass(frozen=True)
class Peer:
    """A peer: its name, the scores it gives, and the relative error it may have (rounding, or that of a sketch)."""

    name: str
    says: str
    gives: str
    sketched: bool = False
    freeze_others: bool = False

    def allowed(self, m: int) -> float:
        return 10 / sqrt(m) if self.sketched else 1e-3


PEERS = (
    Peer("hooks", "ours, hooks", "SDI", sketched=True),
    Peer("summed", "ours, summed over steps", "TracIn", sketched=True),
    Peer("exact", "ours, exact", "SDI"),
    Peer("authors", "authors' release", "SDI", sketched=True),
    Peer("authors, others frozen", "authors' release, others frozen", "SDI", sketched=True, freeze_others=True),
    Peer("dattri", "dattri TracIn", "TracIn"),
    Peer("torch.func", "torch.func, one by one", "TracIn"),
)


def measure_peers(
    rounds: int = 3,
    quick: bool = False,
    works: Sequence[str] = WORKS,
    seed: int = 0,
    peers: Sequence[Peer] = PEERS,
    progress: Progress = lambda _: None,
) -> Record:
    """The minimum is over `rounds` rounds, after the run that is checked."""
    torch.set_num_threads(THREADS)
    figures: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    tables, charts = [], []
    settings: dict[str, Any] = {"rounds": rounds, "quick": quick, "seed": seed}
    settings |= {"authors' release": AUTHORS.release, "dattri": DATTRI.release}
    for name in works:
        if name not in WORKS:
            raise ValueError(f"work must be one of {WORKS}, got {name!r}")
    for name in works:
        case = gpt(2 if quick else 8, quick, seed) if name == "gpt" else sudoku(quick, seed)
        found, rows, failed = _measure(case, rounds, peers, progress)
        failures |= {f"{name} {key}": str(error) for key, error in failed.items()}
        figures |= {f"{name} {key}": times for key, times in found.items()}
        settings[name] = case.says
        columns = (
            "by",
            "gives",
            "time / ours, hooks",
            "off by",
            "allowed",
            "seconds, best",
            "slowest round",
            "peak, MB",
        )
        tables.append(Table(f"{name}: scores of all pairs; {case.says}", columns, rows))
        ours = min(found["hooks"])
        bars = [(peer.says, min(found[peer.name]) / ours) for peer in peers if peer.name in found]
        charts.append(Chart(f"{name}: time / ours, hooks", "ratio", "", bars=bars))
    best = {name: min(times) for name, times in figures.items()}
    return Record("peers", settings, figures, tables, judge(BARS_OF_PEERS, best), charts, failures=failures)


def _measure(
    case: Case, rounds: int, peers: Sequence[Peer], report: Progress
) -> tuple[dict[str, list[float]], list[list[str]], dict[str, Exception]]:
    """Times of those that answered rightly, a row of each, and what those that failed said."""

    def progress(text: str) -> None:
        report(f"{case.name}: {text}")

    turns: dict[str, Callable[[], float]] = {}
    alone: dict[str, list[float]] = {}
    shown: dict[str, tuple[str, Remote | None]] = {}
    failed: dict[str, Exception] = {}
    with ExitStack() as stack, TemporaryDirectory() as folder:
        progress("exact scores")
        with peer_worker("exact", case) as remote:
            truth, _ = _answer(remote, PEERS[2], Path(folder) / "exact")
        workers: dict[str, Remote] = {}
        for peer in peers:
            progress(f"{peer.says}: made ready and checked")
            kind = peer.name.partition(",")[0]
            try:
                if kind not in workers:
                    workers[kind] = stack.enter_context(peer_worker(kind, case))
                remote = workers[kind]
                answer, took = _answer(remote, peer, Path(folder) / "answer")
                off = _off(answer, truth, peer.gives)
            except (WorkerFailed, OSError, ValueError) as error:
                failed[peer.name] = error
                shown[peer.name] = (f"fails: {_short(error)}", None)
                continue
            if not off <= peer.allowed(case.m):
                shown[peer.name] = (f"wrong: off by {off:.2g}", None)
                continue
            shown[peer.name] = (f"{off:.1e}", remote)
            if took > SLOW:
                alone[peer.name] = [took]
            else:
                turns[peer.name] = partial(_seconds, remote, peer, failed)
        if "hooks" not in turns:
            raise ValueError(f"our own answer on {case.name} is not right: {shown['hooks'][0]}")
        found = interleave(turns, rounds, progress, warm=True)  # the check was the warm-up
        for name in [name for name, times in found.items() if not np.isfinite(times).all()]:
            shown[name] = (f"fails while it is timed: {_short(failed[name])}", None)
            del found[name]
        found |= alone
        rows = [_row(peer, case, *shown[peer.name], found) for peer in peers]
    return found, rows, failed


@contextmanager
def peer_worker(name: str, case: Case) -> Iterator[Remote]:
    """A process with the peer in it, the case open."""
    if name == "authors":
        with authors_worker(case) as remote:
            yield remote
        return
    env = dict(os.environ)
    if name == "dattri":
        env["PYTHONPATH"] = os.pathsep.join([*filter(None, [env.get("PYTHONPATH")]), str(DATTRI.install())])
    with Remote([sys.executable, "-m", "sdi.bench.workers.peers_worker"], env, PATIENCE) as remote:
        remote.ask("open", case=case.to_dict(), peer=name)
        yield remote


def _answer(remote: Remote, peer: Peer, file: Path) -> tuple[dict[str, np.ndarray], float]:
    seconds = float(remote.ask("score", save=str(file), **_options(peer))["seconds"])
    return load_file(file), seconds


def _seconds(remote: Remote, peer: Peer, failed: dict[str, Exception]) -> float:
    """The seconds of one run; a peer that fails is noted in `failed`, and the others are still timed."""
    try:
        return float(remote.ask("score", **_options(peer))["seconds"])
    except WorkerFailed as error:
        failed.setdefault(peer.name, error)  # later rounds find nobody there
        return float("inf")


def _options(peer: Peer) -> dict[str, Any]:
    return {"freeze_others": True} if peer.freeze_others else {}


def _off(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray], gives: str) -> float:
    """The relative Frobenius error of what it gives."""
    estimate, exact = answer[gives.lower()], truth[gives.lower()]
    if estimate.shape != exact.shape:
        raise ValueError(f"its {gives} has shape {estimate.shape}, the exact one {exact.shape}")
    return float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact))


def _row(peer: Peer, case: Case, off: str, remote: Remote | None, found: dict[str, list[float]]) -> list[str]:
    allowed = f"{peer.allowed(case.m):.1e}"
    if remote is None:
        return [peer.says, peer.gives, "-", off, allowed, "-", "-", "-"]
    times, best = found[peer.name], min(found[peer.name])
    peak = f"{status(remote.pid, 'VmHWM') / 1e6:.0f}"
    ratio = f"{best / min(found['hooks']):.2f}"
    slowest = "one run" if best > SLOW else f"+{max(times) / best - 1:.0%}"
    return [peer.says, peer.gives, ratio, off, allowed, f"{best:.3f}", slowest, peak]


def _short(error: Exception) -> str:
    """An error's message, cut to fit a table: its first line; unless a worker answered it, also its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if len(lines) == 1 or (isinstance(error, WorkerFailed) and not isinstance(error, WorkerEnded)):
        return lines[0][:160]
    return f"{lines[0][:120]}: {lines[-1][:160]}"
