"""Judge the sketches of two sceptics: the property that refuses each, named or all, with the CPU seconds it took.

    python tests/helpers/sceptic_judge.py [--draws 4000] [NAME ...]

A broken sketch is asked its deciding property of the list of verdicts first, and all others only if that one holds.
The second sceptic's are called new.NAME; `new` stands for all of them.
"""

from __future__ import annotations

import argparse
import inspect
import time
from importlib import import_module
from pathlib import Path

from first_fault import evidence_on
from new_sceptic.listed import BROKEN, RIGHT
from new_sceptic.verdicts import NEW_VERDICTS
from sceptic_bases import CASES, Case
from sceptic_verdicts import VERDICTS

from sdi.validate import PROPERTIES
from sdi.validate.report import GOOD, subject_of
from sdi.validate.sketch_under_test import Subject

HERE = Path(__file__).parent
for _file in sorted(HERE.glob("sceptic_*.py")):
    if _file.stem != Path(__file__).stem:
        import_module(_file.stem)  # each adds to CASES
SKETCHES = {case.name: case for case in CASES}
NEW = {
    f"new.{name}": Case(name, cls, of is BROKEN, cls.__doc__ or "")
    for of in (BROKEN, RIGHT)
    for name, cls in of.items()
}
BY_NAME = {one.name: one for one in PROPERTIES}


def subject(case: Case, draws: int) -> Subject:
    """By its path, so that another process can be asked, too."""
    return subject_of(f"{inspect.getfile(case.make)}:{case.name}", (8, 6), 16, 0, draws)


def refused_by(case: Case, draws: int) -> str | None:
    """The first property found that does not hold; None if all do."""
    verdict = (NEW_VERDICTS if case.make.__module__.startswith("new_sceptic") else VERDICTS).get(case.name)
    asked, first = subject(case, draws), verdict and verdict.after
    for one in sorted(PROPERTIES, key=lambda p: p.name != first):
        if evidence_on(one, asked).verdict not in GOOD:
            return one.name
    return None


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", metavar="NAME")
    words.add_argument("--draws", type=int, default=4000)
    given = words.parse_args()
    every = {**SKETCHES, **NEW}
    for name in list(NEW) if given.names == ["new"] else given.names or every:
        began = time.process_time()
        found = refused_by(every[name], given.draws)
        said = "WRONG" if (found is None) == every[name].broken else "right"
        print(f"{name:24} {found or 'accepted':12} {said:6}{time.process_time() - began:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
