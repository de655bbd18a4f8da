"""Writes docs/results/mutants/README.md: counts by module, and every survivor with the reason it is harmless.

The reasons are written by hand in survivors.toml beside it: `[[reason]]` with `module`, `changes` ("function: old ->
new", as listed) and `why`.
"""

from __future__ import annotations

import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .mutant import Mutant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = "docs/results/mutants"
BAR = 0.95
UNDECIDED = "import"  # what could not be put in place, and waits for a fresh import
HEAD = """# Mutants

`make mutants` changes the modules that hold mathematics in one place at a time and runs the tests that call what was
changed, until one fails: the mutant is killed. What survives is listed here, with the reason it is harmless. The bar:
at least 95% of them killed, and no survivor without a reason.

Python is mutated by the operators of mutmut {mutmut}: numbers, operators, comparisons, arguments left out or `None`,
strings, assignments, both arms of `a if b else c`. Words of errors (`raise`) are left out, and, by mutmut, annotations,
docstrings and calls of `len` and `isinstance`; nothing else. The C kernels have mutants written by hand
(`bench/mutants/kernel_mutants.py`).

A mutant is shown tests of 0.5 CPU seconds, those first that killed others of its module, and if it survives, tests of
10; one that neither fails a test nor ends is killed at a limit of CPU time. A mutant with a reason is a survivor, and
is not run again until its line changes. Where `run` is below `mutants`, the run was stopped; a later `make mutants`
in that checkout goes on, in the order of the mutants' digests, so that it has seen a fair sample.

"""


def reasons(top: Path) -> dict[str, str]:
    """Why survivors are harmless, by their labels."""
    file = top / FOLDER / "survivors.toml"
    found: list[dict[str, Any]] = tomllib.loads(file.read_text())["reason"] if file.exists() else []
    return {f"{one['module']} {change}": one["why"] for one in found for change in one["changes"]}


def report(top: Path, mutants: list[Mutant], outcomes: dict[str, str], write: bool = True) -> bool:
    """Write the table and the survivors, print what lacks a reason; whether all were run and the bar is met."""
    why = reasons(top)
    run = [one for one in mutants if outcomes.get(one.key, UNDECIDED) != UNDECIDED]
    left = [one for one in run if outcomes[one.key] != "killed"]
    open_ones = [one for one in left if one.label not in why]
    lines = [HEAD.format(mutmut=version("mutmut")), *_table(mutants, run, left), "", "## Survivors", ""]
    for path in dict.fromkeys(one.path for one in left):
        lines += [f"### {path}", "", *_survivors([one.label for one in left if one.path == path], why), ""]
    if write:
        (top / FOLDER).mkdir(parents=True, exist_ok=True)
        (top / FOLDER / "README.md").write_text("\n".join(lines).rstrip() + "\n")
    for one in open_ones:
        print(f"{outcomes[one.key]}, no reason given: line {one.line} of {one.label}")
    about = {one.path for one in mutants}
    for label in sorted(label for label in set(why) - {one.label for one in left} if label.split()[0] in about):
        print(f"a reason is given, but it did not survive: {label}")
    killed = len(run) - len(left)
    print(f"{len(run)} of {len(mutants)} run, {killed} killed ({killed / max(len(run), 1):.1%}), "
          f"{len(left)} survived, {len(open_ones)} of them without a reason")  # fmt: skip
    return len(run) == len(mutants) and killed >= BAR * len(mutants) and not open_ones


def _table(mutants: list[Mutant], run: list[Mutant], left: list[Mutant]) -> list[str]:
    total, ran, survived = (Counter(one.path for one in some) for some in (mutants, run, left))
    rows = [(path, count, ran[path], survived[path]) for path, count in total.items()]
    rows.append(("all", len(mutants), len(run), len(left)))
    head = ["| file | mutants | run | survived | killed |", "|---|---:|---:|---:|---:|"]
    return head + [f"| {path} | {n} | {r} | {s} | {(r - s) / max(r, 1):.1%} |" for path, n, r, s in rows]


def _survivors(labels: list[str], why: dict[str, str]) -> list[str]:
    """Changes that share a reason stand under it."""
    groups: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        groups.setdefault(why.get(label, "No reason is given."), []).append(label.partition(" ")[2])
    return [line for reason, changes in groups.items()
            for line in (f"- {reason}", *(f"  - `` {change} ``" for change in changes))]  # fmt: skip
