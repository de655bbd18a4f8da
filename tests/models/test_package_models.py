"""Every model against an unrolled copy with parameters of its own per step, in float64, both memory modes, to 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from package_models import CASES, Case
from unrolled import compare, unrolled

import sdi
import sdi.fast


def made(build: Any) -> tuple[Case, sdi.Loop]:
    torch.manual_seed(0)
    case = build()
    return case, case.loop or sdi.find_loops(case.model, case.loss, case.batch)[0].loop


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_step_gradients_are_those_of_an_unrolled_copy(build: Any, memory: str) -> None:
    case, loop = made(build)
    error, found = compare(case.model, case.loss, loop, case.batch, memory)
    assert error <= 1e-9
    if case.tau is not None:
        assert found.phi.shape[1] == case.tau


def test_the_oracle_tells_one_step_from_another() -> None:
    """The comparison can fail: steps in another order, or too few, are far off."""
    case, loop = made(CASES[5])
    shifted = sdi.Loop(body=loop.body, step="embed")
    with pytest.raises(AssertionError, match="1 steps, not 4"):
        wrong_steps(case, shifted, loop)
    error, found = compare(case.model, case.loss, loop, case.batch, "hooks")
    phi = np.stack([unrolled(case.model, case.loss, loop, one(case.batch, i))[0] for i in range(3)])
    assert error <= 1e-9 < 1e-3 < np.linalg.norm(found.phi[:, ::-1] - phi) / np.linalg.norm(phi)


def wrong_steps(case: Case, wrong: sdi.Loop, right: sdi.Loop) -> None:
    found = sdi.fast.featurize(case.model, case.loss, case.batch, loop=wrong)
    phi, _ = unrolled(case.model, case.loss, right, one(case.batch, 0))
    assert found.phi.shape[1] == len(phi), f"{found.phi.shape[1]} steps, not {len(phi)}"


def one(batch: dict[str, Any], i: int) -> dict[str, Any]:
    return {key: x[i : i + 1] for key, x in batch.items()}
