"""What right sketches must also do: unusual shapes, sizes, dtypes and layouts, and exact moments of polynomials."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from sdi.sketch.hashing import buckets_of, evaluate, signs_of


def edges(cls):
    """The shapes and sizes at which something goes wrong."""
    wrong = []
    for shape in ((1,), (1, 1), (50, 1), (1, 50), (9, 7), (300, 20)):
        for m in (1, 2, 7, 2048):
            try:
                one = cls.draw(shape, m, seed=1, name="w")
            except ValueError:
                continue
            x = np.random.default_rng(8).normal(size=(3, *shape))
            exact, fixed = one.apply(x), x.copy()
            fixed.flags.writeable = False
            near = {"rtol": 1e-9, "atol": 1e-12}
            good = all(np.allclose(one.apply(z), exact, **near) for z in (fixed, np.asfortranarray(x)))
            good &= np.allclose(one.apply(x[::-1])[::-1], exact, **near)
            good &= all(np.allclose(one.apply(x * k) / k, exact, **near) for k in (1e-200, 1e200))
            whole = np.rint(8 * x)
            good &= np.allclose(one.apply(whole.astype(np.int8)), one.apply(whole), atol=1e-9)
            good &= one.apply(x[:0]).shape == (0, one.size) and one.apply(x[None, :0]).shape == (1, 0, one.size)
            good &= one.nbytes == sum(np.asarray(table).nbytes for table in one.tables().values())
            good &= one.size <= max(m, 0 if one.variance_factor() else prod(shape))
            if not good:
                wrong.append((shape, m))
    return wrong


def polynomial_moments(k=3, m=4):
    """Mean of |S x|^2, and its variance over the claim, of flat x with 2^k entries, over every draw of polynomials."""
    d = 1 << k
    every = np.stack(np.meshgrid(*[np.arange(d, dtype=np.uint64)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    s = np.array([signs_of(evaluate(c, d, k)) for c in every]) / sqrt(d)
    hashes = (buckets_of(evaluate(c, d, k), m) for c in every[: d * d, 2:])
    values = [((s @ np.eye(m)[h]) ** 2).sum(axis=1) for h in hashes]
    return float(np.mean(values)), float(np.var(values)) * m / 2
