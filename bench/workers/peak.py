"""Peak memory over the model: a contender in a process of its own, watched from outside. Linux only (/proc).

The model, the sketch tables and the batch are in memory before the measured run; a tiny run before it has loaded every
library. Then: what the process holds, the peak mark put back, one run, the new peak.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdi.run.resident_memory import status

from ..work.cases import Case
from .authors import authors_worker
from .remote import Remote


def peak_over_model(name: str, case: Case) -> float:
    """Bytes, for one of the contenders or "authors", in a fresh process."""
    with worker(name, case) as remote:
        return peak_of_a_run(remote)


@contextmanager
def worker(name: str, case: Case) -> Iterator[Remote]:
    """A process that has the case open."""
    if name == "authors":
        with authors_worker(case) as remote:
            yield remote
        return
    with Remote([sys.executable, "-m", "sdi.bench.workers.our_worker"]) as remote:
        remote.ask("open", case=case.to_dict(), contender=name)
        yield remote


def peak_of_a_run(remote: Remote) -> float:
    """Bytes at the peak over what was held before."""
    remote.ask("run", tiny=True)
    remote.ask("settle")
    with suppress(OSError):  # refused: VmHWM counts from the start of the process, an upper limit for everyone
        Path(f"/proc/{remote.pid}/clear_refs").write_text("5")  # puts VmHWM back to VmRSS
    held = status(remote.pid, "VmRSS")
    remote.ask("run")
    return float(max(status(remote.pid, "VmHWM") - held, 1))  # at tiny sizes a run may fit into what is held
