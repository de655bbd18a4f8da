"""The helpers of attribution tests reject what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_cases import TRAIN, World, assert_close, assert_same_result, featurized, flat, world

__all__ = ["world"]


@pytest.mark.slow
def test_the_comparisons_reject_what_is_not_the_same(world: World) -> None:
    result = world.attribute()
    assert_same_result(result, world.attribute())
    with pytest.raises(AssertionError):
        assert_same_result(result, world.attribute(seed=1), rtol=1e-3)
    with pytest.raises(AssertionError):
        assert_same_result(result, world.attribute(query=TRAIN[:1]))
    with pytest.raises(AssertionError, match="differ"):
        assert_close(np.ones(2), np.array([1, 1.1]))


def test_the_counter_sees_every_example(world: World) -> None:
    with featurized() as calls:
        world.attribute()
    assert flat(calls) == 2 * [*(f"t-{k}" for k in range(7)), *(f"q-{k}" for k in range(3))]
