"""A stored row is made again in every run and must be what is stored: fingerprints do not see all code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attribution_cases import (
    TRAIN,
    World,
    assert_same_result,
    counting,
    files,
    make_batches,
    save_checkpoint,
    world,
)
from looped_models import make_xy, squares
from odd_models import ODD

import sdi
import sdi.fast
from sdi import Loop, StoreError
from sdi.fast import token_cross_entropy

__all__ = ["world"]


class Hidden:
    """A loss that depends on what no fingerprint sees."""

    def __init__(self) -> None:
        self.hidden = np.ones(10_000_000, dtype=np.int8)  # too large to be read for a fingerprint

    def __call__(self, model: Any, batch: Any) -> Any:
        return float(self.hidden[0]) * token_cross_entropy(model, batch)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
@pytest.mark.parametrize("mode", ["query", "matrix"])
def test_a_row_of_each_side_is_made_again_and_must_be_what_is_stored(world: World, mode: str, dtype: str) -> None:
    loss = Hidden()
    options = {"store": world.store, "loss": loss, "audit": "first", "mode": mode, "dtype": dtype}
    wanted = world.attribute(**options)
    before = files(world.store)
    with counting(sdi.fast.Featurizer, "features", lambda make, batch, ids=(): tuple(ids)) as calls:
        assert_same_result(world.attribute(**options), wanted)
    assert calls == [("t-0",), ("q-0",)]
    loss.hidden[0] = 2
    words = (
        r"^train example 't-0' at checkpoint .*/step-9.safetensors is not stored as it is made now: the two differ by "
        r"0.[23]\d* of their size .*; the features in .* were made by other code or other kernels; use a new folder$"
    )
    with pytest.raises(StoreError, match=words):
        world.attribute(**options)
    with pytest.raises(StoreError, match=r"^query example 'q-0' at"):
        world.attribute(**options, train=make_batches(2, "new", seed=8))
    world.attribute(**{**options, "audit": "off"})
    for name, content in before.items():
        assert (world.store / name).read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_stores_of_odd_models_are_reused_too(world: World, name: str) -> None:
    """One row alone may call fewer modules than its batch did, or draw other random numbers."""
    model = ODD[name]().eval()
    point = save_checkpoint(world.folder / "odd.safetensors", model, 0.1)
    options = world.options(store=world.store, loss=squares, loop=Loop("core", "core"), checkpoints=point)
    options |= {"train": [{**make_xy(5), "id": list("abcde")}], "query": [make_xy(2, seed=7)], "audit": "first"}
    first = sdi.attribute(model, **options)
    before = files(world.store)
    assert_same_result(sdi.attribute(model, **options), first)
    assert files(world.store) == before


@pytest.mark.slow
def test_the_row_that_is_made_again_is_one_that_is_stored(world: World) -> None:
    world.attribute(store=world.store, audit="first", train=[{k: v[2:] for k, v in TRAIN[0].items()}], query=TRAIN[2:])
    with counting(sdi.fast.Featurizer, "features", lambda make, batch, ids=(): tuple(ids)) as calls:
        world.attribute(store=world.store, audit="first")
    assert calls[0] == ("t-2",)
