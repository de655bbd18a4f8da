"""Judge the sceptic's sketches: the property that refuses each, named or all, with the CPU seconds it took.

    python tests/helpers/sceptic_judge.py [--draws 4000] [NAME ...]

A broken sketch is asked its deciding property of `sceptic_verdicts` first, and all others only if that one holds.
"""

from __future__ import annotations

import argparse
import inspect
import time
from importlib import import_module
from pathlib import Path

from first_fault import evidence_on
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
BY_NAME = {one.name: one for one in PROPERTIES}


def subject(case: Case, draws: int) -> Subject:
    """By its path, so that another process can be asked, too."""
    return subject_of(f"{inspect.getfile(case.make)}:{case.name}", (8, 6), 16, 0, draws)


def refused_by(case: Case, draws: int) -> str | None:
    """The first property found that does not hold; None if all do."""
    asked, first = subject(case, draws), VERDICTS[case.name].after
    for one in sorted(PROPERTIES, key=lambda p: p.name != first):
        if evidence_on(one, asked).verdict not in GOOD:
            return one.name
    return None


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", metavar="NAME")
    words.add_argument("--draws", type=int, default=4000)
    given = words.parse_args()
    for name in given.names or SKETCHES:
        began = time.process_time()
        found = refused_by(SKETCHES[name], given.draws)
        said = "WRONG" if (found is None) == SKETCHES[name].broken else "right"
        print(f"{name:24} {found or 'accepted':12} {said:6}{time.process_time() - began:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
