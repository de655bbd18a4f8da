"""Sketches of a fourth sceptic, who had not read the checks: BROKEN on purpose, and RIGHT ones of unusual kinds."""

from fourth_sceptic import (
    broken_dense,
    broken_draws,
    broken_names,
    broken_numbers,
    broken_outer,
    broken_scale,
    broken_state,
    broken_tables,
    right_buckets,
    right_dense,
    right_protocol,
    right_several,
)

HELPERS = {"Renamed", "Twin", "SingleTwin", "ViewTwin", "Several"}


def _of(*modules):
    """The sketches that these modules define, by name."""
    every = (one for module in modules for one in vars(module).values() if isinstance(one, type))
    names = {module.__name__ for module in modules}
    return {one.__name__: one for one in every if one.__module__ in names and one.__name__ not in HELPERS}


BROKEN = _of(
    broken_draws,
    broken_dense,
    broken_scale,
    broken_names,
    broken_state,
    broken_numbers,
    broken_outer,
    broken_tables,
)
RIGHT = _of(right_buckets, right_several, right_dense, right_protocol)
