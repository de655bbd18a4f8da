"""Shows of each sketch, without the checks, that it is broken or right: PYTHONPATH=tests/helpers python -m
fifth_sceptic.confirm [name ...]. Prints the measured effect of each; exits with 1 if one is not what the list says."""

import sys
from math import prod, sqrt

import numpy as np

from fifth_sceptic import SKETCHES
from fifth_sceptic.effects import EFFECTS

SHAPES = [((8, 6), 16), ((5, 7), 9), ((40,), 16), ((3, 50), 12), ((30, 2), 64), ((13, 11), 32), ((16, 16), 15)]


def pairs(shape, rng):
    """x = y: flat, one entry, two entries, a row, a column, normal; and unlike pairs."""
    d = prod(shape)
    one, two, flat = np.zeros(d), np.zeros(d), np.ones(d)
    one[d // 3] = 1
    two[[1, d - 1]] = 1
    row, column = np.zeros(shape), np.zeros(shape)
    row[0], column[..., 0] = 1, 1
    x, y = rng.standard_normal((2, d))
    alternating = flat * (-1) ** np.arange(d)
    same = [flat, one, two, row.ravel(), column.ravel(), x]
    return [(a, a) for a in same] + [(x, y), (flat, alternating), (one, two), (x, x + y), (two, flat)]


def right_at(cls, shape, m, draws):
    """The worst errors at one size: of the mean in standard errors, of the variance over the claim, of the exact."""
    rng = np.random.default_rng(sum(shape) + m)
    xy = [(a / np.linalg.norm(a), b / np.linalg.norm(b)) for a, b in pairs(shape, rng)]
    X, Y = (np.array(side).reshape(-1, *shape) for side in zip(*xy, strict=True))
    true = np.array([a @ b for a, b in xy])
    got = np.empty((draws, len(xy)))
    for k in range(draws):
        S = cls.draw(shape, m, seed=k, name="layers.0.w")
        got[k] = (S.apply(X) * S.apply(Y)).sum(axis=1)
    claim = S.variance_factor()
    assert S.size <= m or (claim == 0 and S.size == prod(shape))
    bias = np.abs(got.mean(axis=0) - true) / np.sqrt(max(claim, 1e-24) / draws)
    square = (got - true) ** 2
    spread = square.std(axis=0) / sqrt(draws)
    over = (square.mean(axis=0) - claim - 1e-24) / np.maximum(spread, 1e-24)
    rows, cols = shape[0], prod(shape[1:])
    u, v, g = rng.standard_normal((3, 4, rows)), rng.standard_normal((3, 4, cols)), rng.standard_normal((3, *shape))
    G = (u.swapaxes(1, 2) @ v).reshape(3, *shape)
    exact = [S.apply_outer(u, v) - S.apply(G), S.apply(G - 3 * g) - S.apply(G) + 3 * S.apply(g)]
    exact.append(S.apply(G) - G.reshape(3, -1) @ S.dense().T)
    exact.append(S.apply(np.asfortranarray(G)) - S.apply(G))
    exact.append(S.apply(G[:1]) - S.apply(G)[:1])
    if hasattr(S, "to_torch"):
        import torch

        twin, to = S.to_torch("cpu", torch.float64), torch.from_numpy
        exact.append(twin.apply(to(G)).numpy() - S.apply(G))
        if len(shape) == 2:
            exact.append(twin.apply_outer(to(u), to(v)).numpy() - S.apply(G))
    again = cls.draw(shape, m, seed=draws - 1, name="layers.0.w")
    other = cls.draw(shape, m, seed=0, name="layers.1.w")
    assert again.identity == S.identity
    assert (other.identity == S.identity) == np.array_equal(other.dense(), S.dense())
    return bias.max(), over.max(), (square.mean(axis=0) / max(claim, 1e-24)).max(), max(np.abs(e).max() for e in exact)


def right(cls, draws=400):
    """Right at seven sizes, those that it refuses left out; and over every draw, where it can list them."""
    seen = []
    for shape, m in SHAPES:
        try:
            cls.draw(shape, m, seed=0, name="w")
        except ValueError:
            continue
        seen.append(right_at(cls, shape, m, draws))
    bias, over, ratio, exact = np.max(seen, axis=0)
    text = (
        f"{len(seen)} sizes: bias {bias:.1f} se, variance {ratio:.2f} of the claim ({over:+.1f} se), exact {exact:.0e}"
    )
    good = len(seen) >= 3 and bias < 5 and over < 5 and exact < 1e-11
    if hasattr(cls, "enumerate_all"):
        x, total, mean = np.array([1.0, -2.0, 0.5]), 0, 0
        for p, S in cls.enumerate_all((3,), 2):
            total, mean = total + p, mean + float(p) * S.apply(x) @ S.apply(x)
        good = good and total == 1 and abs(mean - x @ x) < 1e-12
        text += f"; all draws: {total}, {mean:.3f}"
    return good, text


def main(names):
    wrong = []
    for name, cls, verdict in SKETCHES:
        if names and name not in names:
            continue
        try:
            good, text = right(cls) if verdict == "right" else EFFECTS[name](cls)
        except Exception as error:
            good, text = False, repr(error)
        print(f"{name:22} {verdict:7} {'' if good else 'NOT SHOWN '}{text}", flush=True)
        wrong += [] if good else [name]
    print("not shown:", wrong or "none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
