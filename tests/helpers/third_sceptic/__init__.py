"""The third sceptic's sketches, written with docs/new-sketch.md, docs/theory.md and sdi/sketch alone.

BROKEN: classes that harm a user, by name. RIGHT: classes that keep all that docs/new-sketch.md promises.
"""

from third_sceptic import (
    broken_apply,
    broken_draws,
    broken_mean,
    broken_outer,
    broken_protocol,
    broken_twins,
    broken_variance,
    right_dense,
    right_hashed,
)


def _own(module):
    """The sketch classes that a module defines, by name."""
    own = {k: v for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__}
    return {name: cls for name, cls in own.items() if name not in ("Twin", "WithTwin")}


_broken = (broken_mean, broken_variance, broken_draws, broken_apply, broken_outer, broken_twins, broken_protocol)
BROKEN = {name: cls for module in _broken for name, cls in _own(module).items()}
RIGHT = {name: cls for module in (right_hashed, right_dense) for name, cls in _own(module).items()}
