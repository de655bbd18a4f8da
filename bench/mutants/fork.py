"""Work in child processes that end at a limit of CPU time: one at a time, or several."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
MEMORY = 6 << 30  # bytes that a child may take beside what it has
NOTE = "note"  # a file in a child's own folder
PATIENCE = 20  # wall-clock seconds for each CPU second that a child may take: the machine may be busy


def in_child(work: Callable[[], bool | None], seconds: float) -> str:
    """Run `work` in a child: "passed" (True), "failed" (False, or an exception), "undecided" (None), or "stopped" (by a
    signal, or at the limit of CPU seconds)."""
    return next(outcome for _, outcome, _ in in_children([(0, work, seconds)], 1))


def leave_note(text: str) -> None:
    """In a child: a text that `in_children` yields beside the outcome."""
    (Path(tempfile.gettempdir()) / NOTE).write_text(text)


def in_children(
    jobs: Iterable[tuple[T, Callable[[], bool | None], float]], at_once: int
) -> Iterator[tuple[T, str, str]]:
    """Run jobs (name, work, CPU seconds) in children, so many at once; yields name, outcome and note as they end."""
    waiting = iter(jobs)
    running: dict[int, tuple[T, Path, float]] = {}
    more = True
    while more or running:
        while more and len(running) < at_once:
            job = next(waiting, None)
            if job is None:
                more = False
                break
            name, work, seconds = job
            home = Path(tempfile.mkdtemp(prefix="mutant-"))
            pid = os.fork()
            if pid == 0:
                _be_child(work, seconds, home)
            running[pid] = name, home, time.monotonic() + PATIENCE * (seconds + 5)
        if not running:
            break
        for pid in list(running):
            name, home, until = running[pid]
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done and time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                done, status = os.waitpid(pid, 0)
            if done:
                del running[pid]
                note = (home / NOTE).read_text() if (home / NOTE).exists() else ""
                shutil.rmtree(home, ignore_errors=True)
                code = os.waitstatus_to_exitcode(status)
                yield name, {0: "passed", 1: "failed", 3: "undecided"}.get(code, "stopped"), note
        time.sleep(0.002)


def _be_child(work: Callable[[], bool | None], seconds: float, home: Path) -> None:
    code = 1
    with contextlib.suppress(BaseException):  # whatever a mutant does
        os.setsid()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = str(home)
        used = sum(os.times()[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 2, int(used + seconds) + 3))
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, -1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open(os.devnull, os.O_RDWR)
        sys.stdout.flush()
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        code = {True: 0, False: 1, None: 3}[work()]
    os._exit(code)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
