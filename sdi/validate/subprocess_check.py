"""The same question asked in a new process: what only this one's memory or its salted hashes know shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from sdi.validate.sketch_under_test import Subject

ASK = """
import importlib, sys
from sdi.sketch.load import load_sketch
from sdi.validate.sketch_under_test import Subject
module, question, spec, shape, m, seed = sys.argv[1:]
subject = Subject(load_sketch(spec), spec, tuple(map(int, shape.split(","))), int(m), int(seed))
print(getattr(importlib.import_module(module), question)(subject))
"""


def can_be_elsewhere(subject: Subject) -> bool:
    """Whether another process could load it: a class without a path could not."""
    return not subject.spec.startswith("<")


def elsewhere(question: Callable[[Subject], str], subject: Subject) -> str:
    """The answer of a function of this package in a new process; or, if that fails, what it said last."""
    words = [subject.spec, ",".join(map(str, subject.shape)), str(subject.m), str(subject.seed)]
    command = [sys.executable, "-c", ASK, question.__module__, question.__name__, *words]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
    said = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
