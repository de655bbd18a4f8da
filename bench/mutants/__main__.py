"""`python -m sdi.bench.mutants`: writes, runs and lists mutants; a run that was stopped goes on.

--only TEXT: files whose path holds it. --since REVISION: functions that have changed since then. --jobs N: processes at
once. --fresh: forget what was found before. --list: run nothing, only list what is known. Of a part nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from .kernel_mutants import FILE
from .kernels import kernel_mutants, run_kernels
from .mutant import Mutant, modules, mutants_of
from .report import reasons, report
from .run import OPTIONS, Collected, Outcomes, Tell, check_controls, run_at_import, run_in_place
from .since import changed_since
from .watch import signature

TESTS = (
    "tests/sketch",
    "tests/scores",
    "tests/reference",
    "tests/proofs_checks/test_gradient_statements.py",
    "tests/proofs_checks/test_sketch_statements.py",
    "tests/proofs_checks/test_statements.py",
    "tests/proofs_checks/test_variant_statements.py",
    "tests/fast/test_agrees_with_reference.py",
    "tests/fast/test_arena.py",
    "tests/fast/test_compiled.py",
    "tests/fast/test_coverage.py",
    "tests/fast/test_exact.py",
    "tests/fast/test_sinks.py",
    "tests/fast/test_steps.py",
    "tests/fast/test_tensor_sketch_routes.py",
    "tests/fast/test_twins.py",
    "tests/house/test_docstrings.py",
    "tests/house/test_reference_cases.py",
    "tests/house/test_written_before.py",
    "tests/inputs/test_bad_input.py",
    "tests/result/test_parts.py",
    "tests/run/test_spread.py",
    "tests/store/test_features.py",
    "sdi/sketch",
    "sdi/scores",
)
QUICK, SLOW = 0.5, 10.0  # CPU seconds of tests that a mutant is shown at first, and if it survives without a reason


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sdi.bench.mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--since", default="", metavar="REVISION")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    top = Path(__file__).resolve().parents[2]
    home = top / ".mutants"
    if given.fresh:
        shutil.rmtree(home, ignore_errors=True)
    home.mkdir(exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.chdir(top)

    paths = [path for path in modules(top) if given.only in path]
    mutants = [one for path in paths for one in mutants_of(top, path, home / "written")]
    mutants += [one for one in kernel_mutants(top) if given.only in one.path]
    if given.since:
        changed = changed_since(top, given.since, [*paths, FILE])
        mutants = [one for one in mutants if (one.path, one.function) in changed]
    print(f"{len(mutants)} mutants of {len({one.path for one in mutants})} files", flush=True)
    file = home / "outcomes.jsonl"
    if not given.list:
        _warm()
        _in_fork(lambda: _in_place(top, home, file, mutants, given.jobs))
        _imported(top, home, file, mutants, given.jobs)
    raise SystemExit(0 if report(top, mutants, Outcomes(file).of, write=not (given.only or given.since)) else 1)


def _warm() -> None:
    """Import what is slow to import, but nothing of the library that a mutant may change."""
    import hypothesis
    import hypothesis.configuration
    import hypothesis.extra.numpy
    import numpy  # noqa: F401
    import scipy.special
    import scipy.stats  # noqa: F401
    import torch

    torch.set_num_threads(1)
    hypothesis.configuration.set_hypothesis_home_dir(Path(os.devnull))
    found_is_enough = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # without shrinking what was found
    hypothesis.settings.register_profile(
        "mutants", deadline=None, derandomize=True, database=None, phases=found_is_enough, report_multiple_bugs=False
    )
    hypothesis.settings.load_profile("mutants")


def _in_fork(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the tests could not be collected, or the run was stopped")


def _in_place(top: Path, home: Path, file: Path, mutants: list[Mutant], jobs: int) -> None:
    import pytest

    explained = set(reasons(top))

    def work(collected: Collected) -> None:
        tests = sorted(signature(collected.items[name]) for name in collected.tests)
        digest = hashlib.sha256(json.dumps(tests).encode()).hexdigest()[:12]
        outcomes = Outcomes(file, digest)
        told = _progress(outcomes)
        for one in mutants:
            if one.key in outcomes.killers:
                collected.kills[one.path, outcomes.killers[one.key]] += 1
            if one.label in explained and outcomes.of.get(one.key) != "killed":
                outcomes.tell(one.key, "survived")
        kernels = [one for one in mutants if one.path == FILE and one.key not in outcomes.of]
        left = [one for one in mutants if one.path != FILE and one.key not in outcomes.of]
        left.sort(key=lambda one: one.key)  # a digest: a run that is stopped has seen a fair sample
        print(f"{len(left)} to run, tests of {QUICK:g} CPU seconds", flush=True)
        check_controls(collected, dict.fromkeys(one.path for one in left), QUICK)
        run_in_place(
            collected, left, QUICK, jobs, lambda key, what, by: told(key, "quick" if what == "survived" else what, by)
        )
        left = [one for one in mutants if outcomes.of.get(one.key) == "quick"]
        print(f"{len(left)} to run, tests of {SLOW:g} CPU seconds", flush=True)
        run_in_place(collected, left, SLOW, jobs, told)
        print(f"{len(kernels)} kernels to compile and run", flush=True)
        run_kernels(collected, kernels, SLOW, jobs, home, told)
        orders = {path: collected.order(path, SLOW) for path in modules(top)}
        (home / "orders.json").write_text(json.dumps([digest, orders]))

    code = pytest.main([*OPTIONS, "--rootdir", str(top), *TESTS], plugins=[Collected(top, home, work)])
    if code not in (0, 5):
        raise SystemExit(int(code))


def _imported(top: Path, home: Path, file: Path, mutants: list[Mutant], jobs: int) -> None:
    digest, orders = json.loads((home / "orders.json").read_text())
    outcomes = Outcomes(file, digest)
    left = [one for one in mutants if outcomes.of.get(one.key) == "import"]
    print(f"\n{len(left)} to run with an import each", flush=True)
    run_at_import(top, orders, left, 10 + 5 * SLOW, jobs, _progress(outcomes))


def _progress(outcomes: Outcomes) -> Tell:
    begun, count = time.monotonic(), dict.fromkeys(("killed", "survived", "unseen", "import", "quick"), 0)

    def tell(key: str, outcome: str, killer: str) -> None:
        outcomes.tell(key, outcome, killer)
        count[outcome] += 1
        if sum(count.values()) % 20 == 0:
            print(f"{time.monotonic() - begun:.0f} s: {count}", flush=True)

    return tell


if __name__ == "__main__":
    main()
