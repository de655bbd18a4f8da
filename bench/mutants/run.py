"""Runs mutants: in a forked child each, the tests that call what was changed, the quickest first, until one fails."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest

from .fork import in_child, in_children, leave_note
from .live import (
    Change,
    Place,
    caches,
    changed_functions,
    import_instead,
    living_functions,
    replace,
    replaceable,
    transplant,
)
from .mutant import Mutant, modules
from .watch import Test, run_test, watch

OPTIONS = (
    "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=no",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # hypothesis is imported before pytest begins
)  # fmt: skip
Tell = Callable[[str, str, str], None]  # a mutant's key, what became of it, and the test that killed it
Job = tuple[str, Callable[[], bool | None], float]


class Collected:
    """A pytest plugin: instead of running the tests that were collected, it calls `work` with this."""

    def __init__(self, top: Path, home: Path, work: Callable[[Collected], None]) -> None:
        self.top, self.home, self.work = top, home, work
        self.items: dict[str, pytest.Item] = {}
        self.living: dict[Place, list[FunctionType]] = {}
        self.tests: dict[str, Test] = {}
        self.kills: Counter[tuple[str, str]] = Counter()  # by a module's path and a test's name

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self.items = {item.nodeid: item for item in session.items}
        self.living = living_functions(self.top, modules(self.top))
        self.caches = caches()
        gc.collect()
        gc.freeze()  # a child's collector does not touch, and so copy, what it shares
        self.tests = watch(session.items, self.living, self.home / "watched.jsonl")
        self.work(self)
        return True

    def order(self, path: str, budget: float, places: Collection[Place] | None = None) -> list[str]:
        """The tests that call any of these places of the module at `path` (None: all of it), as many as fit into so
        many CPU seconds: first those that killed mutants of it, by their kills a second; then the quickest."""
        chosen: list[str] = []
        total = 0.0

        def rank(name: str) -> tuple[float, float]:
            return -self.kills[path, name] / max(self._seconds(name), 0.01), self._seconds(name)

        def sees(test: Test) -> bool:
            return any(place[0] == path if places is None else place in places for place in test.calls)

        for name in sorted((name for name, test in self.tests.items() if sees(test)), key=rank):
            total += self._seconds(name)
            if total > budget and chosen:
                break
            chosen.append(name)
        return chosen

    def passes(self, names: Sequence[str]) -> bool:
        """Whether all of these pass; stops at the first that does not, and leaves its name as a note."""
        for name, after in zip(names, [*names[1:], None], strict=True):
            if not run_test(self.items[name], None if after is None else self.items[after]):
                leave_note(name)
                return False
        return True

    def time_of(self, names: Sequence[str]) -> float:
        return sum(map(self._seconds, names))

    def _seconds(self, name: str) -> float:
        return self.tests[name].seconds


def check_controls(collected: Collected, paths: Iterable[str], budget: float) -> None:
    """RuntimeError if a module's tests fail in a child without a mutant: they would kill whatever they are shown."""
    for path in paths:
        names = collected.order(path, budget)
        if in_child(lambda names=names: collected.passes(names), 1 + 4 * collected.time_of(names)) != "passed":  # type: ignore[misc]
            raise RuntimeError(f"the tests of {path} fail without a mutant: {names}")


def run_in_place(collected: Collected, mutants: Sequence[Mutant], budget: float, at_once: int, tell: Tell) -> None:
    """Mutants that living code can take. `tell` hears "killed", "survived", "unseen" (no test calls it) or "import"."""
    top, living = collected.top, collected.living

    def jobs() -> Iterator[Job]:
        for mutant in mutants:
            changes = changed_functions(top, mutant.path, mutant.source)
            if changes is not None and not (changes and replaceable(changes, living)):
                changes = None
            names = collected.order(mutant.path, budget, None if changes is None else {place for place, _ in changes})
            if not names:
                tell(mutant.key, "unseen", "")
                continue

            def work(
                mutant: Mutant = mutant, changes: list[Change] | None = changes, names: list[str] = names
            ) -> bool | None:
                if changes is not None:
                    replace(changes, living)
                elif not transplant(top, mutant.path, mutant.source):
                    return None
                for cache in collected.caches:
                    cache.cache_clear()
                return collected.passes(names)

            yield mutant.key, work, 1 + 4 * collected.time_of(names)

    paths = {mutant.key: mutant.path for mutant in mutants}
    for key, outcome, killer in in_children(jobs(), at_once):
        collected.kills[paths[key], killer] += 1
        tell(key, {"passed": "survived", "undecided": "import"}.get(outcome, "killed"), killer)


def run_at_import(
    top: Path, tests: dict[str, list[str]], mutants: Sequence[Mutant], seconds: float, at_once: int, tell: Tell
) -> None:
    """Mutants of what runs at import: a session of pytest each. tests: for each module, in order."""

    def passes(path: str, source: str) -> bool:
        import_instead(top, path, source)
        files = sorted({str(top / name.split("::")[0]) for name in tests[path]})
        return pytest.main(["-x", *OPTIONS, "--rootdir", str(top), *files], plugins=[_Ordered(tests[path])]) == 0

    for path in {mutant.path for mutant in mutants}:
        if in_child(partial(passes, path, (top / path).read_text()), seconds) != "passed":
            raise RuntimeError(f"the tests of {path} fail without a mutant when it is imported anew")

    def jobs() -> Iterator[Job]:
        for mutant in mutants:
            yield mutant.key, partial(passes, mutant.path, mutant.source), seconds

    for key, outcome, _ in in_children(jobs(), at_once):
        tell(key, "survived" if outcome == "passed" else "killed", "")


class _Ordered:
    def __init__(self, names: Sequence[str]) -> None:
        self.rank = {name: k for k, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((one for one in items if one.nodeid in self.rank), key=lambda one: self.rank[one.nodeid])


class Outcomes:
    """What became of mutants, in a file that grows line by line: a run that was killed goes on.

    tests: a digest of the tests. What survived other tests is tried again; what was killed is not.
    """

    def __init__(self, file: Path, tests: str = "") -> None:
        self.file, self.tests = file, tests
        self.of: dict[str, str] = {}
        self.killers: dict[str, str] = {}  # tests, by a mutant's key
        for line in file.read_text().splitlines() if file.exists() else []:
            key, outcome, by, *killer = json.loads(line) if line.endswith("]") else ("", "", "")
            if outcome == "killed" or by == tests or not tests:
                self.of[key] = outcome
                if any(killer):
                    self.killers[key] = killer[0]

    def tell(self, key: str, outcome: str, killer: str = "") -> None:
        self.of[key] = outcome
        with self.file.open("a") as out:
            print(json.dumps([key, outcome, self.tests, killer]), file=out)
