"""Which tests call which functions, and how long they take: a mutant is shown only to tests that can see it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import pytest

from .fork import in_child
from .live import Place


class Test(NamedTuple):
    """A test that passes without a mutant: CPU seconds, and the places of the functions that it calls."""

    seconds: float
    calls: frozenset[Place]


def watch(items: Sequence[pytest.Item], living: dict[Place, list[FunctionType]], kept: Path) -> dict[str, Test]:
    """Run each test once, in a child process. A test that fails is left out, and named.

    kept: a file that remembers what was seen, as long as neither the test's file nor a module that it called changes.
    """
    seen = _read(kept)
    new = [item for item in items if signature(item) not in seen]
    if new:
        print(f"watching {len(new)} tests", flush=True)
        in_child(lambda: _watch_all(new, living, kept), seconds=7200)
        seen = _read(kept)
    found = {item.nodeid: seen.get(signature(item)) for item in items}
    failed = [name for name, test in found.items() if test is None or not test.calls]
    broken = [name for name in failed if (one := found[name]) is None or one.seconds < 0]
    if broken:
        print(f"left out, for they fail without a mutant: {broken}", flush=True)
    return {name: test for name, test in found.items() if test is not None and test.calls and test.seconds >= 0}


def run_test(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether a collected test passes, or is skipped."""
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _watch_all(items: Sequence[pytest.Item], living: dict[Place, list[FunctionType]], kept: Path) -> bool:
    places = {id(function.__code__): place for place, functions in living.items() for function in functions}
    calls: set[Place] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and id(frame.f_code) in places:
            calls.add(places[id(frame.f_code)])

    digests = {path: _digest(Path(path).resolve()) for path, _, _ in living}
    with kept.open("a") as out:
        for item in items:
            calls.clear()
            before = sum(os.times()[:4])
            sys.setprofile(note)
            passed = run_test(item, None)
            sys.setprofile(None)
            seconds = sum(os.times()[:4]) - before if passed else -1.0
            files = {path: digests[path] for path, _, _ in calls}
            print(json.dumps([signature(item), seconds, sorted(calls), files]), file=out, flush=True)
    return True


def signature(item: pytest.Item) -> str:
    """A test's name and a digest of its file."""
    return f"{item.nodeid} {_digest(item.path)}"


def _digest(path: Path, known: dict[Path, str] = {}) -> str:  # noqa: B006
    import hashlib

    if path not in known:
        known[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return known[path]


def _read(kept: Path) -> dict[str, Test]:
    lines: Iterable[str] = kept.read_text().splitlines() if kept.exists() else ()
    found = {}
    for line in lines:
        name, seconds, calls, files = json.loads(line)
        if all(Path(path).exists() and _digest(Path(path).resolve()) == digest for path, digest in files.items()):
            found[name] = Test(seconds, frozenset(tuple(place) for place in calls))
    return found
