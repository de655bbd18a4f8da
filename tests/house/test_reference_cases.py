"""The cases and the comparisons of reference tests reject what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from reference_cases import assert_close, assert_inner_product

from sdi.testing import LoopedCase, looped_cases
from sdi.testing.strategies import OPTIONS


@pytest.mark.slow
def test_the_cases_reach_every_option() -> None:
    seen: set[tuple[str, Any]] = set()

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(looped_cases())
    def collect(case: LoopedCase) -> None:
        seen.update((name, getattr(case.config, name)) for name in OPTIONS)
        seen.add(("ragged", len(set(case.tau.tolist())) > 1))
        seen.add(("early read-out", bool((case.readout < case.tau).any())))
        seen.add(("masked", not case.batch.get("mask", np.ones(1)).all()))

    collect()
    wanted = {(name, value) for name, values in OPTIONS.items() for value in values}
    assert wanted | {(name, True) for name in ("ragged", "early read-out", "masked")} <= seen


def test_the_helpers_reject_what_is_not_close() -> None:
    v = np.ones(2)
    assert_inner_product(np.array([3.0]), np.array([[1.0, 2.0]]), v, 1.0, "sum")
    with pytest.raises(AssertionError, match="sum"):
        assert_inner_product(np.array([3.0 + 1e-8]), np.array([[1.0, 2.0]]), v, 1.0, "sum")
    assert_close(np.ones(3), np.ones(3) + 1e-14)
    with pytest.raises(AssertionError, match="differ"):
        assert_close(np.ones(3), np.ones(3) + 1e-10)
    with pytest.raises(AssertionError, match="shapes"):
        assert_close(np.ones(3), np.ones((3, 1)))
    with pytest.raises(AssertionError, match="differ"):
        assert_close(np.ones(3), np.array([1.0, 2.0, 1.0]))
