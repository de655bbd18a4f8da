"""How to repeat a failed assertion: a line that runs as it stands, in a shell where one can, else in Python."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from sdi.sketch.load import MARK
from sdi.validate.sketch_under_test import Subject
from sdi.validate.statistics.mean_test import ALPHA
from sdi.validate.subprocess_check import can_be_elsewhere


def repeat_line(verb: str, subject: Subject, alpha: float | None) -> str:
    """`sdi validate` if it can load the class and asks for the same error rate; the assertion itself otherwise.

    alpha: None for an assertion that is exact, and so needs no draws.

    >>> from sdi.sketch.shipped.count_and_tensor import Keep
    >>> repeat_line("assert_unbiased", Subject(Keep, "exact", seed=3), ALPHA)
    'sdi validate exact --shape 8,6 --m 16 --seed 3 --draws 4000'
    >>> repeat_line("assert_unbiased", Subject(Keep, "exact", (99,), draws=500), 0.1)
    "from sdi.testing import assert_unbiased; assert_unbiased('exact', shape=(99,), m=16, seed=0, draws=500, alpha=0.1)"
    """
    cls, spec = subject.sketch, _path(subject)
    if spec is not None and alpha in (ALPHA, None):
        shape = ",".join(map(str, subject.shape))
        options = f"--shape {shape} --m {subject.m} --seed {subject.seed} --draws {subject.draws}"
        return f"sdi validate {shlex.quote(spec)} {options}"
    options = f"shape={subject.shape}, m={subject.m}, seed={subject.seed}"
    options += "" if alpha is None else f", draws={subject.draws}, alpha={alpha:g}"
    name = cls.__qualname__.rpartition("<locals>.")[2] if spec is None else repr(spec)
    load = f"from sdi.testing import {verb}; "
    if spec is None and _can_be_imported(cls):
        load += f"from {cls.__module__} import {name.partition('.')[0]}; "
    return f"{load}{verb}({name}, {options})"


def _path(subject: Subject) -> str | None:
    """What `sdi validate` can load it by: the user's own words, or the file that it was once loaded from."""
    if can_be_elsewhere(subject):
        return subject.spec
    file = getattr(sys.modules.get(subject.sketch.__module__), MARK, None)
    return None if file is None else f"{file}:{subject.sketch.__qualname__}"


def _can_be_imported(cls: Any) -> bool:
    """Not if it is made in a function, or in the script that runs."""
    return cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__
