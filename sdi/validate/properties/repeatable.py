"""The same arguments give the same sketch, and the same sketch the same answers: now, later, and in another process.

Answers are the caller's: a later call does not change them, and to write into them changes nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Shape, Sizes, Subject, digest
from sdi.validate.subprocess_check import can_be_elsewhere, elsewhere

OFTEN, SMALL = 300, 100  # calls, and draws, after which nothing may have changed; entries of what is called so often
OTHERS: Sizes = (((3, 2), 4), ((5,), 2), ((6, 8), 11), ((48,), 7))


@sketch_property(
    "repeatable",
    says="draw is a pure function of its arguments, and apply of its argument",
    remedy="draw all randomness in draw, from sdi.sketch.bits(count, seed, name); no generator of a library, no "
    "hash() of a string (it differs between processes), nothing drawn in apply; return new arrays, not a buffer",
)
def repeatable(subject: Subject) -> Evidence:
    where = "here and in another process" if can_be_elsewhere(subject) else "in this process only: a class has no path"
    return first_wrong(_tries(subject), where)


def draw_digest(subject: Subject) -> str:
    """Of some draws, the widest first: what is remembered of an earlier one shows where others came before."""
    sizes = [(k, shape, m) for m in (2 * subject.m, subject.m) for shape in subject.shapes for k in range(3)]
    parts = [digest(one) for k, shape, m in sizes for one in _drawn(subject, k, shape, m)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _drawn(subject: Subject, k: int, shape: Shape, m: int) -> list[Any]:
    """The k-th sketch, or none if the class refuses a width that was not asked for."""
    try:
        return [subject.draw(k, shape, m)]
    except ValueError:
        if m == subject.m and shape in subject.shapes:
            raise
        return []


def _tries(subject: Subject) -> Iterator[Try]:
    for sketch in subject.smallest_first():
        case = at(sketch)
        yield from ((wrong, case) for wrong in _answers(subject, sketch))
    for shape in subject.shapes:
        yield from ((wrong, subject.call(shape)) for wrong in _draws(subject, shape))
    if can_be_elsewhere(subject):
        there = elsewhere(draw_digest, subject)
        wrong = None if there == draw_digest(subject) else f"drawn in another process, another sketch: {there[:80]}"
        yield wrong, f"load_sketch({subject.spec!r}) in a new process"


def _answers(subject: Subject, sketch: Any) -> Iterator[str | None]:
    x, y = subject.rng(5).standard_normal((2, 2, *sketch.shape))
    before, generators = digest(sketch), _generators()
    calls: dict[str, Any] = {"apply": sketch.apply}
    if len(sketch.shape) == 2:
        u, v = (subject.rng(6).standard_normal((3, d)) for d in sketch.shape)
        calls["apply_outer"] = lambda u=u, v=v: sketch.apply_outer(u.copy(), v.copy())
        calls["apply_outer of others"] = lambda u=u, v=v: sketch.apply_outer(2 * u, v + 1)
    given = x.copy()
    once = np.asarray(sketch.apply(given))
    view = np.may_share_memory(once, given) and sketch.variance_factor() > 0  # what keeps everything may hand it back
    yield "apply gives a view of its argument" if view else None
    kept = once.copy()
    sketch.apply(y.copy())
    yield None if np.array_equal(once, kept) else "a second call of apply changes the answer of the first"
    yield None if np.array_equal(kept, sketch.apply(x.copy())) else "apply twice, two answers"
    if once.flags.writeable:
        once[...] = 7.0  # the caller's own
    yield None if np.array_equal(kept, sketch.apply(x.copy())) else "writing into an answer changes the next one"
    mine = y.copy()
    sketch.apply(mine)
    mine[...] = x  # the same array with other numbers
    yield None if np.array_equal(kept, sketch.apply(mine)) else "apply remembers an array that has changed since"
    alone = kept[0]
    if len(sketch.shape) == 2:
        once = np.asarray(calls["apply_outer"]())
        kept = once.copy()
        calls["apply_outer of others"]()
        yield None if np.array_equal(once, kept) else "a second call of apply_outer changes the answer of the first"
        yield None if np.array_equal(kept, calls["apply_outer"]()) else "apply_outer twice, two answers"
        mine = [2 * u, v + 1]
        sketch.apply_outer(*mine)
        mine[0][...], mine[1][...] = u, v  # the same arrays with other numbers
        same = np.array_equal(kept, sketch.apply_outer(*mine))
        yield None if same else "apply_outer remembers an array that has changed since"
    for _ in range(OFTEN if prod(sketch.shape) < SMALL else 0):
        sketch.apply(y)
    yield None if np.array_equal(alone, sketch.apply(x)[0]) else f"after {OFTEN} calls, apply gives another answer"
    yield None if digest(sketch) == before else "apply changed the sketch's tables"
    yield None if _generators() == generators else "apply draws from a generator that is not its own"
    with np.errstate(divide="warn", over="warn", invalid="warn"):
        errors = np.geterr()
        sketch.apply(x)
        same = np.geterr() == errors
    yield None if same else "apply changes what NumPy does about overflow and division by zero"


def _draws(subject: Subject, shape: Shape) -> Iterator[str | None]:
    generators = _generators()
    one = subject.draw(shape=shape)
    x = subject.rng(5).standard_normal(shape)
    tables, answer = digest(one), np.array(one.apply(x.copy()))
    subject.draw(7, shape, name="another")
    two = subject.draw(shape=shape)
    two.apply(100 * subject.rng(24).standard_normal((2, *shape)))  # what comes first must not matter
    yield None if tables == digest(two) else "drawn twice with the same arguments, two sketches"
    yield (None if np.array_equal(answer, two.apply(x.copy())) else "equal tables, other answers after another call")
    subject.draw(8, shape, name="another")
    _others(subject, shape)
    same = tables == digest(one) and np.array_equal(answer, one.apply(x.copy()))
    yield None if same else "a later draw changes a sketch that was drawn before"
    again = subject.draw(shape=shape)
    same = tables == digest(again) and np.array_equal(answer, again.apply(x.copy()))
    yield None if same else f"after {OFTEN} other draws, another sketch"
    named = [str(one.identity) for one in (one, again) if hasattr(one, "identity")]
    yield None if len(set(named)) <= 1 else "drawn twice with the same arguments, two identities"
    claims = sorted(float(subject.draw(k, shape).variance_factor()) for k in range(8))
    wrong = f"variance_factor() is from {claims[0]:.3g} to {claims[-1]:.3g} from draw to draw"
    yield None if claims[0] == claims[-1] else wrong
    yield None if _generators() == generators else "draw seeds or moves a generator that is not its own"


def _others(subject: Subject, shape: Shape) -> None:
    """Many sketches of other shapes, widths and seeds, all used: what a class remembers of them must not show."""
    for size, m in ((shape, subject.m), *OTHERS):
        for k in range(OFTEN // len(OTHERS)):
            for one in _drawn(subject, k + 20, size, m):
                one.apply(np.ones(size))


def _generators() -> tuple[str, str]:
    """The state of the generators that every module shares."""
    shared: Any = np.random.get_state()  # noqa: NPY002  (to see that nobody moves it)
    return repr(random.getstate()), repr([np.asarray(part).tolist() for part in shared])
