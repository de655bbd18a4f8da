"""Faults that show in single calls: each function gives whether it shows, and how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SHAPE, M = (8, 6), 64
RANDOM = np.random.default_rng(0)


def one_of(cls, shape=SHAPE, m=M, seed=0, name="w"):
    return cls.draw(shape, m, seed=seed, name=name)


def normal(*shape):
    return RANDOM.normal(size=shape)


def relative(a, b):
    """The largest difference, over the largest number."""
    return float(np.abs(np.asarray(a) - b).max() / np.abs(b).max())


def differs(a, b, least, what):
    off = relative(a, b)
    return off > least, f"{what}: {off:.1e} off"


def same_table(first, second):
    """That two pairs of seed and name have one table."""

    def check(cls):
        a, b = (one_of(cls, seed=seed, name=name) for seed, name in (first, second))
        return bool(np.array_equal(a.h, b.h) and np.array_equal(a.s, b.s)), f"{first} and {second} have one table"

    return check


def same_error(first, second):
    """That two pairs of seed and name have other tables but the same error."""

    def check(cls):
        a, b = (one_of(cls, seed=seed, name=name) for seed, name in (first, second))
        x, y = normal(*SHAPE), normal(*SHAPE)
        errors = [float(one.apply(x) @ one.apply(y) - (x * y).sum()) for one in (a, b)]
        good = abs(errors[0] - errors[1]) < 1e-9 < abs(errors[0]) and a.identity != b.identity
        return good, f"errors of {first} and {second}: {errors[0]:.4f} and {errors[1]:.4f}, other tables"

    return check


def raises(call, what):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return True, f"{what}: {type(error).__name__}: {str(error)[:60]}"
    return False, f"{what}: no error"


def claim_from_own_table(cls):
    at = {m: [one_of(cls, m=m, seed=seed).variance_factor() * m / 2 for seed in range(400)] for m in (64, 2048)}
    low = {m: float(np.mean(np.array(claims) < 0.75)) for m, claims in at.items()}
    return low[64] > 0.05 and low[2048] > 0.3, f"share of draws that claim under 0.75 of 2/m: {low}"


def tables_set_order(cls):
    here = Path(__file__).resolve()
    code = (
        "from fourth_sceptic.broken_names import TablesSetOrder as T; "
        "print(T.draw((8, 6), 64, seed=0, name='w').identity)"
    )
    path = os.pathsep.join([str(here.parents[1]), str(here.parents[3])])
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(k)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for k in range(3)
    }
    return len(found) > 1, f"identities of one sketch in three processes: {sorted(found)}"


def stale_by_id(cls):
    one, x = one_of(cls), normal(*SHAPE)
    before = one.apply(x)
    x *= 3
    return relative(one.apply(x), before) == 0, "after x *= 3 the answer is the old one"


def outer_answer_is_buffer(cls):
    one = one_of(cls)
    pairs = [(normal(4, 5, 8), normal(4, 5, 6)) for _ in range(2)]
    first = one.apply_outer(*pairs[0])
    kept = first.copy()
    one.apply_outer(*pairs[1])
    return differs(first, kept, 0.1, "the first answer after a second call")


def outer_scales_table(cls):
    one, x = one_of(cls), normal(*SHAPE)
    before = one.apply(x)
    one.apply_outer(normal(5, 8), normal(5, 6))
    return differs(one.apply(x), before, 0.1, "apply after apply_outer")


def in_place_large_batch(cls):
    x = normal(64, 60, 50)
    kept = x.copy()
    one_of(cls, (60, 50)).apply(x)
    return differs(x, kept, 0.1, "the argument after apply")


def in_place_and_back(cls):
    x = normal(3, *SHAPE)
    x.flags.writeable = False
    return raises(lambda: one_of(cls).apply(x), "a read-only argument")


def outer_mutates_u(cls):
    u, v = normal(4, 5, 8), normal(4, 5, 6)
    kept = u.copy()
    one_of(cls).apply_outer(u, v)
    return differs(u, kept, 0.1, "u after apply_outer")


def drops_relative_small(cls):
    one, rest, large = one_of(cls, (40, 30)), normal(40, 30), np.zeros((40, 30))
    large[0, 0] = 1e5
    return differs(one.apply(large + rest) - one.apply(large), one.apply(rest), 0.1, "S(large + rest) - S(large)")


def half_precision_for_batches(cls):
    x = normal(300, *SHAPE).astype(np.float32)
    return differs(one_of(cls).apply(x)[:10], one_of(cls).apply(x[:10]), 1e-5, "float32, 300 arrays against 10")


def last_chunk_lost(cls):
    x = normal(1500, *SHAPE)
    return differs(one_of(cls).apply(x)[1400:], one_of(cls).apply(x[1400:]), 0.1, "the last 100 of 1,500")


def cumsum_buckets(cls):
    one, x = one_of(cls, (40, 30)), normal(40, 30).astype(np.float32)
    x.flat[int(np.argmin(one.h))] = 1e8
    exact = one.apply(x.astype(np.float64))
    small = np.abs(exact) < 1e4
    return differs(one.apply(x)[small], exact[small], 0.1, "float32, buckets beside one of 1e8")


def fixed_point_sums(cls):
    one, x = one_of(cls), normal(*SHAPE)
    small = relative(one.apply(x * 1e-9) * 1e9, one.apply(x))
    large = relative(one.apply(x * 1e8) * 1e-8, one.apply(x))
    return small > 1e-5 and large > 0.1, f"gradients of 1e-9: {small:.1e} off; of 1e8: {large:.1e} off"


def infinity_clipped(cls):
    x = normal(*SHAPE)
    x[2, 3] = np.inf
    return bool(np.isfinite(one_of(cls).apply(x)).all()), "infinity in, finite numbers out"


def bad_rows_zeroed(cls):
    x = normal(3, *SHAPE)
    x[1, 2, 3] = np.nan
    return bool((one_of(cls).apply(x)[1] == 0).all()), "NaN in one of three arrays, zeros out"


def ravel_a(cls):
    x = normal(3, *SHAPE)
    return differs(one_of(cls).apply(np.asfortranarray(x)), one_of(cls).apply(x), 0.1, "the same in Fortran's order")


def negative_strides_crash(cls):
    return raises(lambda: one_of(cls).apply(normal(3, *SHAPE)[::-1]), "a flipped view")


def lead_axes_fortran(cls):
    x = normal(2, 3, *SHAPE)
    return differs(one_of(cls).apply(x)[0, 1], one_of(cls).apply(x[0, 1]), 0.1, "array (0, 1) of (2, 3)")


def squeezes_batch_of_one(cls):
    got = one_of(cls).apply(normal(1, *SHAPE)).shape
    return got != (1, M), f"(1, 8, 6) gives {got}"
