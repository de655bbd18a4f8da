"""What is written to a store is what is read from it, in every dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import World, assert_close, shards, world
from safetensors.numpy import load_file

import sdi
import sdi.fast
from sdi import Features, SketchMap, Store, StoreError
from sdi.fast import token_cross_entropy
from sdi.store.shard_format import decoded

__all__ = ["world"]


@pytest.mark.slow
def test_float16_keeps_three_digits_whatever_the_size(world: World) -> None:
    def scaled(scale: float) -> Any:
        return lambda model, batch: scale * token_cross_entropy(model, batch)

    for scale in (1e-9, 1.0, 1e9):
        wanted = world.attribute(loss=scaled(scale))
        result = world.attribute(loss=scaled(scale), dtype="float16", mode="query")
        norm = np.abs(wanted.sdi.values).max()
        assert 0 < np.abs(result.sdi.values - wanted.sdi.values).max() <= 2e-3 * norm
        assert_close(result.stderr.values, wanted.stderr.values, rtol=2e-3)


def test_float16_keeps_three_digits_of_every_step_however_small(tmp_path: Path) -> None:
    """Gradients may shrink a thousandfold from step to step; zero is for steps that cannot act."""
    sketch = SketchMap.draw({"w": (20, 20)}, 16)
    values = np.random.default_rng(0).normal(size=(3, 5, 16)) * 10.0 ** -np.array([0, 4, 8, 12, 20])[:, None]
    values[1, 2:] = 0
    outside = values[:, 4] * 1e-3
    features = Features(values, np.array([5, 2, 5]), sketch.blocks, sketch.label, outside)
    store = Store.create(tmp_path / "store", sketch, {"dtype": "float16"})
    with store.writing():
        store.append("c", "query", features, ["a", "b", "c"])
    again = Store(tmp_path / "store").read("c", "query", features.ids)
    for x, y in ((again.values, values), (again.outside, outside)):
        assert (np.abs(x - y) <= 2.0**-11 * np.abs(y).max(axis=-1, keepdims=True)).all()
        assert ((x == 0).all(axis=-1) == (y == 0).all(axis=-1)).all()
    old = {"values": np.ones((2, 3, 4), np.float16), "scale": np.array([2.0, 8.0], np.float32)}
    read = decoded(old, "values", slice(0, 2), sketch.blocks)  # of an earlier version
    np.testing.assert_array_equal(read[:, 0, 0], [2.0, 8.0])


@pytest.mark.slow
def test_float16_halves_the_store(world: World) -> None:
    sizes = []
    for dtype in ("float32", "float16"):
        world.attribute(store=world.folder / dtype, dtype=dtype)
        values = [load_file(p)["values"] for p in shards(world.folder / dtype)]
        assert {str(v.dtype) for v in values} == {dtype}
        sizes.append(sum(v.nbytes for v in values))
    assert sizes[1] * 2 == sizes[0]


def test_features_too_large_for_the_dtype_are_refused(tmp_path: Path) -> None:
    sketch = SketchMap.keep({"w": (3,)})
    for dtype in ("float32", "float16"):
        store = Store.create(tmp_path / dtype, sketch, {"dtype": dtype})
        huge = Features(np.full((2, 3), 1e300), np.ones(2, int), sketch.blocks, sketch.label)
        with store.writing(), pytest.raises(StoreError, match=r"do not fit into float.*; use dtype='float64'"):
            store.append("a", "train", huge, ["x", "y"])
        assert not (tmp_path / dtype).exists()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_what_is_read_is_what_was_written(tmp_path: Path, dtype: str) -> None:
    sketch = SketchMap.keep({"w": (2, 2), "b": (3,)})
    rng = np.random.default_rng(0)
    store = Store.create(tmp_path / "s", sketch, {"dtype": dtype})
    values = rng.integers(-9, 9, (5, 4, 7)) * 2.0 ** rng.integers(-40, 40, (5, 1, 1))
    tau = np.array([1, 2, 3, 4, 4])
    values[np.arange(4) >= tau[:, None]] = 0
    outside = rng.integers(-9, 9, (5, 7)).astype(float)
    outside[0], values[0] = 0, 0
    ids = tuple("abcde")
    with store.writing():
        for rows, out in ((slice(0, 2), None), (slice(2, 5), outside[2:5])):
            part = values[rows, : tau[rows].max()]
            store.append(
                "k", "query", Features(part, tau[rows], sketch.blocks, sketch.label, out, ids[rows]), ids[rows]
            )
    order = ["d", "a", "c", "b"]
    for reader in (store, Store(tmp_path / "s")):
        read = reader.read("k", "query", order)
        rows = [3, 0, 2, 1]
        assert read.ids == tuple(order)
        assert read.tau.tolist() == tau[rows].tolist()
        wanted_outside = np.where(np.array(rows)[:, None] >= 2, outside[rows], 0)
        scale = np.maximum(np.abs(values[rows]).max(axis=(1, 2)), np.abs(wanted_outside).max(axis=1))[:, None]
        tolerance = {"int8": 1 / 127, "float16": 1e-3}.get(dtype, 0) * scale
        assert (np.abs(read.values - values[rows]) <= tolerance[..., None]).all()
        assert read.outside is not None
        assert (np.abs(read.outside - wanted_outside) <= tolerance).all()
    with pytest.raises(ValueError, match=r"^no query example 'f' among the 5 stored$"):
        store.read("k", "query", ["f"])


def test_features_of_another_sketch_are_refused(tmp_path: Path) -> None:
    sketch, other = (SketchMap.draw({"w": (9, 9)}, 16, seed) for seed in (0, 1))
    store = Store.create(tmp_path / "s", sketch, {"dtype": "float32"})
    with store.writing(), pytest.raises(sdi.SketchMismatch, match=r"is for sketch .*seed=0.*, got .*seed=1"):
        store.append("a", "train", Features(np.ones((1, 16)), np.ones(1, int), other.blocks, other.label), ["x"])
