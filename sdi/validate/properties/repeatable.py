"""The same arguments give the same sketch, and the same sketch the same answers: now, later, and in another process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject, digest
from sdi.validate.subprocess_check import can_be_elsewhere, elsewhere


@sketch_property(
    "repeatable",
    says="draw is a pure function of its arguments, and apply of its argument",
    remedy="draw all randomness in draw, from sdi.sketch.bits(count, seed, name); no generator of a library, no "
    "hash() of a string (it differs between processes), nothing drawn in apply",
)
def repeatable(subject: Subject) -> Evidence:
    where = "here and in another process" if can_be_elsewhere(subject) else "in this process only: a class has no path"
    return first_wrong(_tries(subject), where)


def draw_digest(subject: Subject) -> str:
    parts = [digest(subject.draw(k, shape)) for shape in subject.shapes for k in range(3)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _tries(subject: Subject) -> Iterator[Try]:
    for sketch in subject.smallest_first():
        case = at(sketch)
        x = subject.rng(5).standard_normal((2, *sketch.shape))
        once, before = sketch.apply(x.copy()), digest(sketch)
        yield (None if np.array_equal(once, sketch.apply(x.copy())) else "apply twice, two answers"), case
        yield (None if digest(sketch) == before else "apply changed the sketch's tables"), case
        if len(sketch.shape) == 2:
            u, v = (subject.rng(6).standard_normal((3, d)) for d in sketch.shape)
            once, again = (sketch.apply_outer(u.copy(), v.copy()) for _ in range(2))
            yield (None if np.array_equal(once, again) else "apply_outer twice, two answers"), case
    for shape in subject.shapes:
        call = subject.call(shape)
        one = subject.draw(shape=shape)
        subject.draw(7, shape, name="another")
        two = subject.draw(shape=shape)
        yield (None if digest(one) == digest(two) else "drawn twice with the same arguments, two sketches"), call
        x = subject.rng(5).standard_normal(shape)
        same = np.array_equal(one.apply(x.copy()), two.apply(x.copy()))
        yield (None if same else "equal tables, different answers"), call
    if can_be_elsewhere(subject):
        there = elsewhere(draw_digest, subject)
        wrong = None if there == draw_digest(subject) else f"drawn in another process, another sketch: {there[:80]}"
        yield wrong, f"load_sketch({subject.spec!r}) in a new process"
