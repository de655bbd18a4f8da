"""The looped transformer in PyTorch: whose weights it takes, gives and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import CONFIG, QUERY, make_model

import sdi.reference
from sdi.fast import LoopedTransformer


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_state_dict_makes_the_same_model_with_weights_of_its_own(dtype: torch.dtype) -> None:
    model = make_model(1, dtype=dtype)
    twin = LoopedTransformer(CONFIG, model.state_dict())
    assert {p.dtype for p in twin.parameters()} == {dtype}
    assert torch.equal(twin(QUERY[0]), model(QUERY[0]))
    with torch.no_grad():
        twin.head.weight.zero_()
    assert model.head.weight.any()
    assert all(p.requires_grad for p in twin.parameters())


def test_arrays_that_may_not_be_written_are_copied() -> None:
    weights = make_model(1).weights()
    for w in weights.values():
        w.flags.writeable = False
    assert torch.equal(LoopedTransformer(CONFIG, weights)(QUERY[0]), make_model(1)(QUERY[0]))


def test_weights_of_bfloat16_come_as_float32() -> None:
    model = make_model(1, dtype=torch.bfloat16)
    weights = model.weights()
    assert {w.dtype for w in weights.values()} == {np.dtype(np.float32)}
    for name, w in model.state_dict().items():
        np.testing.assert_array_equal(weights[name], w.double().numpy())
    sdi.reference.LoopedTransformer(CONFIG, weights)


HEAD = np.ones((5, 8))
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (lambda w: {}, ValueError, r"^weights must hold 'read_in.weight' \(5, 8\), which is missing$"),
    "missing": (
        lambda w: {name: x for name, x in w.items() if name != "head.weight"},
        ValueError,
        r"^weights must hold 'head.weight' \(5, 8\), which is missing$",
    ),
    "unknown": (
        lambda w: {**w, "heads.weight": HEAD},
        ValueError,
        r"^weights hold 'heads.weight', which the config does not have; did you mean 'head.weight'",
    ),
    "shape": (
        lambda w: {**w, "head.weight": HEAD.T},
        ValueError,
        r"^weight 'head.weight' must have shape \(5, 8\), got \(8, 5\)$",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("make", [LoopedTransformer, sdi.reference.LoopedTransformer], ids=["fast", "reference"])
def test_bad_weights_are_refused_as_in_the_reference(case: str, make: Any) -> None:
    change, error, words = BAD[case]
    with pytest.raises(error, match=words):
        make(CONFIG, change(make_model().weights()))


def test_weights_that_are_no_real_numbers_are_refused() -> None:
    weights = make_model().weights()
    for kind, name in ((np.int64, "int64"), (np.complex128, "complex128")):
        with pytest.raises(TypeError, match=rf"^weight 'head.weight' must hold real numbers, got torch.{name}$"):
            LoopedTransformer(CONFIG, {**weights, "head.weight": HEAD.astype(kind)})
