"""The mutation run itself: a mutant lives where it should, and is seen; what hangs or crashes is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import pytest

from sdi.bench.mutants.fork import in_child
from sdi.bench.mutants.kernel_mutants import FILE
from sdi.bench.mutants.kernels import kernel_mutants
from sdi.bench.mutants.live import changed_functions, import_instead, living_functions, replace, replaceable, transplant
from sdi.bench.mutants.mutant import Mutant, modules, mutants_of
from sdi.bench.mutants.report import report
from sdi.bench.mutants.run import Outcomes
from sdi.bench.mutants.since import changed_since
from sdi.scores import estimated_error
from sdi.sketch.shipped.sparse import SparseSketch
from sdi.sketch.variance_factor import coincidence, tensor_sketch_factor

TOP = Path(__file__).resolve().parents[2]
PATH = "sdi/sketch/variance_factor.py"


def mutated(old: str, new: str) -> str:
    source = (TOP / PATH).read_text()
    assert source.count(old) == 1
    return source.replace(old, new)


@pytest.mark.slow
def test_a_changed_function_is_replaced_wherever_it_is_referred_to() -> None:
    def work() -> bool:
        changes = changed_functions(TOP, PATH, mutated("2 - m % 2", "2 + m % 2"))
        living = living_functions(TOP, [PATH])
        assert changes is not None
        assert replaceable(changes, living)
        replace(changes, living)
        return coincidence(3) == 3 and tensor_sketch_factor(1) == 12

    assert in_child(work, 5) == "passed"
    assert coincidence(3) == 1


@pytest.mark.slow
def test_what_runs_at_import_is_told_apart_and_imported() -> None:
    source = mutated("def coincidence(m: int)", "def coincidence(m: int = 5)")
    assert changed_functions(TOP, PATH, source) is None
    assert changed_functions(TOP, PATH, (TOP / PATH).read_text()) == []

    def work() -> bool:
        import_instead(TOP, PATH, source)
        from sdi.sketch.variance_factor import coincidence

        return coincidence() == 1  # type: ignore[call-arg]

    assert in_child(work, 5) == "passed"


def test_defaults_and_plain_values_are_put_in_place() -> None:
    def defaults() -> bool:
        put = transplant(TOP, PATH, mutated("def coincidence(m: int)", "def coincidence(m: int = 5)"))
        return put and coincidence() == 1  # type: ignore[call-arg]

    def values() -> bool:
        path, margin = "sdi/scores/estimated_error.py", "MARGIN = 1.1"
        source = (TOP / path).read_text()
        put = transplant(TOP, path, source.replace(margin, "MARGIN = 2.1"))
        return put and estimated_error.MARGIN == 2.1

    def of_classes() -> bool:
        path = "sdi/sketch/shipped/sparse.py"
        source = (TOP / path).read_text()
        for old, new in (("ClassVar[int] = 4", "ClassVar[int] = 5"), ("*, seed: int = 0", "*, seed: int = 1")):
            source = source.replace(old, new)
        put = transplant(TOP, path, source)
        drawn, wanted = (SparseSketch.draw((9,), 8, **seed).tables()["rows"] for seed in ({}, {"seed": 1}))
        return put and np.array_equal(drawn, wanted) and drawn.shape == (9, 5)

    assert in_child(defaults, 5) == in_child(values, 5) == in_child(of_classes, 5) == "passed"
    assert estimated_error.MARGIN == 1.1


@pytest.mark.slow
def test_children_that_fail_crash_or_do_not_end_are_told_apart_from_those_that_pass() -> None:
    def hang() -> bool:
        while True:
            pass

    def raise_() -> bool:
        raise KeyboardInterrupt

    def crash() -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    assert in_child(lambda: True, 1) == "passed"
    assert in_child(lambda: None, 1) == "undecided"
    assert in_child(lambda: False, 1) == in_child(raise_, 1) == "failed"
    assert in_child(crash, 1) == in_child(hang, -2) == "stopped"  # -2: the least that the limit can be
    assert in_child(lambda: bool(np.ones(1 << 40).sum()), 1) == "failed"


def test_the_kernels_mutants_differ_from_the_source_and_from_each_other() -> None:
    sources = [one.source for one in kernel_mutants(TOP)]
    assert len({(TOP / FILE).read_text(), *sources}) == len(sources) + 1 > 100


@pytest.mark.slow
def test_mutants_are_written_for_every_kind_of_function_but_not_for_the_words_of_errors(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="the extra 'mutants' is not installed")
    found = mutants_of(TOP, "sdi/sketch/hashing.py", tmp_path)
    assert {"field_modulus", "bits", "draw_signs"} <= {one.function for one in found}  # the first is decorated
    assert not any("the degree of the field" in one.old for one in found)
    assert len({one.source for one in found}) == len(found)
    assert mutants_of(TOP, "sdi/sketch/hashing.py", tmp_path) == found
    assert all(isinstance(compile(one.source, "mutant", "exec"), CodeType) for one in found[::20])


def test_modules_exist_and_are_imported_under_their_names() -> None:
    assert PATH in modules(TOP)
    assert all((TOP / path).is_file() for path in modules(TOP))
    living = living_functions(TOP, [PATH])
    assert isinstance(coincidence, FunctionType)
    assert any(coincidence in functions for functions in living.values())


def test_outcomes_go_on_and_survivors_of_other_tests_are_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "outcomes"
    for key, outcome in (("a", "killed"), ("b", "survived")):
        Outcomes(file, "old").tell(key, outcome)
    with file.open("a") as out:
        out.write('["c", "kil')  # a run that was killed here
    assert Outcomes(file, "old").of == {"a": "killed", "b": "survived"}
    assert Outcomes(file, "new").of == {"a": "killed"}


def test_the_bar_needs_a_reason_for_every_survivor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mutmut", reason="the extra 'mutants' is not installed")
    mutants = [Mutant("a.py", "f", 1, f"x{k}", "None", f"source {k}") for k in range(1, 21)]
    outcomes = {one.key: "killed" for one in mutants[1:]}
    assert not report(tmp_path, mutants, outcomes)  # one was not run
    outcomes[mutants[0].key] = "survived"
    assert not report(tmp_path, mutants, outcomes)
    assert "no reason given: line 1 of a.py f: x1 -> None in source 1" in capsys.readouterr().out
    reasons = '[[reason]]\nmodule = "a.py"\nchanges = ["f: x1 -> None in source 1"]\nwhy = "x1 is None already"\n'
    (tmp_path / "docs/results/mutants/survivors.toml").write_text(reasons)
    assert report(tmp_path, mutants, outcomes)
    assert "x1 is None already" in (tmp_path / "docs/results/mutants/README.md").read_text()
    assert not report(tmp_path, mutants, {**outcomes, mutants[1].key: "survived"})


def test_only_functions_whose_code_has_changed_are_run_again(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    (tmp_path / "a.py").write_text('X = 1\n\n\nclass A:\n    def f(self):\n        """Says."""\n        return 1\n\n'
                                   "    def g(self):\n        return 2\n")  # fmt: skip
    (tmp_path / "k.h").write_text("1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "a")
    assert changed_since(tmp_path, "HEAD", ["a.py", "k.h"]) == set()
    source = (tmp_path / "a.py").read_text()
    (tmp_path / "a.py").write_text(source.replace("Says", "Says more").replace("return 2", "return 3  # why"))
    (tmp_path / "k.h").write_text("2\n")
    (tmp_path / "new.py").write_text("def h():\n    pass\n")
    changed = {("a.py", "A.g"), ("k.h", "kernel"), ("new.py", "module"), ("new.py", "h")}
    assert changed_since(tmp_path, "HEAD", ["a.py", "k.h", "new.py"]) == changed
    with pytest.raises(SystemExit, match="must be a revision of this checkout, got 'nowhere'"):
        changed_since(tmp_path, "nowhere", ["a.py"])
