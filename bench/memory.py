"""Peak memory over the model: each contender in a process of its own, watched from outside.

The model, the sketch tables and the batch are in memory before the measured run; a tiny run before it has loaded every
library. Then: what the process holds, the peak mark put back, one run, the new peak. Linux only (/proc).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .authors import RELEASE, authors_worker
from .bars import BARS_OF_MEMORY, judge
from .cases import Case, gpt
from .interleave import Progress
from .record import Record, Table
from .remote import Remote

RUNS = (
    ("recompute", 8), ("recompute", 32), ("recompute", 16), ("hooks", 16), ("plain", 16), ("authors", 16),
)  # fmt: skip


def measure_memory(quick: bool = False, authors: bool = True, progress: Progress = lambda _: None) -> Record:
    figures: dict[str, list[float]] = {}
    rows = []
    for name, tau in RUNS:
        if name == "authors" and not authors:
            continue
        progress(f"{name}, tau={tau}")
        with _worker(name, gpt(tau, quick)) as remote:
            held, peak = peak_of_a_run(remote)
        figures[f"{name} {tau}"] = [peak - held]
        rows.append([name, str(tau), f"{held / 1e6:.0f}", f"{(peak - held) / 1e6:.0f}"])
    columns = ("contender", "tau", "held before, MB", "peak over that, MB")
    table = Table(f"gpt: {gpt(16, quick).says}", columns, rows)
    settings = {"quick": quick, "authors' release": RELEASE if authors else "left out"}
    best = {name: values[0] for name, values in figures.items()}
    return Record("memory", settings, figures, [table], judge(BARS_OF_MEMORY, best))


@contextmanager
def _worker(name: str, case: Case) -> Iterator[Remote]:
    if name == "authors":
        with authors_worker(case) as remote:
            yield remote
        return
    with Remote([sys.executable, "-m", "sdi.bench.our_worker"]) as remote:
        remote.ask("open", case=case.to_dict(), contender=name)
        yield remote


def peak_of_a_run(remote: Remote) -> tuple[int, int]:
    """Bytes held before, and at the peak."""
    remote.ask("run", tiny=True)
    remote.ask("settle")
    with suppress(OSError):  # refused: VmHWM counts from the start of the process, an upper limit for everyone
        Path(f"/proc/{remote.pid}/clear_refs").write_text("5")  # puts VmHWM back to VmRSS
    held = _status(remote.pid, "VmRSS")
    remote.ask("run")
    return held, max(_status(remote.pid, "VmHWM"), held + 1)  # at tiny sizes a run may fit into what is held


def _status(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {name}; peak memory can be measured on Linux only")
