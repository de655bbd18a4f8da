"""Tables of the Sudoku experiment with planted effects of difficulty, or with none."""

from __future__ import annotations

import numpy as np

from sdi.experiments.sudoku.findings.table import Groups, table

TRAIN = np.repeat(np.arange(40, 47), 12)
TEST = np.repeat(np.arange(46, 51), 10)
GROUPS = Groups.of(9, TRAIN, TEST)


def planted(seed, size=0.0, late=0.0, shared=True):
    """SDI of 84 training boards on 50 test boards over 8 steps, and self-influences.

    size: how much a blank adds to the logarithm of a training board's influence. late: how much it moves to the later
    half. shared: whether self-influence is that board's size, or drawn apart.
    """
    rng = np.random.default_rng(seed)
    strength = np.exp(size * (TRAIN - 43) + 0.3 * rng.normal(size=len(TRAIN)))
    tilt = late * (TRAIN - 43)[:, None] * np.where(np.arange(8) < 4, -1, 1)
    shape = np.exp(tilt)[:, None] * rng.normal(size=(len(TRAIN), len(TEST), 8))
    own = strength**2 if shared else np.exp(rng.normal(size=len(TRAIN)))
    return strength[:, None, None] * shape, own


def the_table(*args, **kwargs):
    sdi, own = planted(*args, **kwargs)
    return table(sdi, own, TRAIN, TEST, GROUPS)
