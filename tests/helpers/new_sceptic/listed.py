"""A second sceptic's sketches, written from docs/new-sketch.md and the protocol alone, before its checks were read.

BROKEN, RIGHT: by name, what `sdi validate` must refuse and accept.
"""

from __future__ import annotations

from types import ModuleType

from new_sceptic import applies, bases, claims, hashing, outer_and_twins, right, seeds_and_names

HELPERS = {"Twin", "ByColumnsTwin", "LastTokenTwin", "SingleTwin", "InPlaceTwin", "ViewTwin", "Fourier"}


def _of(*modules: ModuleType) -> dict[str, type]:
    return {
        name: cls
        for module in modules
        for name, cls in vars(module).items()
        if isinstance(cls, type) and cls.__module__ == module.__name__ and name not in HELPERS
    }


BROKEN = _of(hashing, seeds_and_names, applies, claims, outer_and_twins)
RIGHT = _of(right) | {"Sides": bases.Sides, "Dense": bases.Dense, "Fourier": outer_and_twins.Fourier}
