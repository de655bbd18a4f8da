"""62 broken and 22 right sketches, written by someone who had not read the checks, before anything was judged.

`confirm.py` shows of each, without the checks, that it is what it is said to be.
"""

from fifth_sceptic import (
    broken_hashes,
    broken_identity,
    broken_linear,
    broken_names,
    broken_outer,
    broken_scale,
    broken_twins,
    broken_variance,
    right_buckets,
    right_masks,
    right_projections,
)

BROKEN = (broken_scale, broken_hashes, broken_variance, broken_names, broken_linear, broken_outer, broken_twins)
MODULES = (*BROKEN, broken_identity, right_buckets, right_masks, right_projections)
SKETCHES = [row for module in MODULES for row in module.SKETCHES]  # (name, class, "broken" or "right")
