"""Features in int8: right on average, the same every time, and a quarter of the bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import World, shards, world
from safetensors.numpy import load_file

import sdi
from sdi import Features, SketchMap, Store, StoreError
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.train_blocks import train_blocks
from sdi.store.int8 import from_int8, rounding_variance, to_int8

__all__ = ["world"]
SKETCH = SketchMap.keep({"w": (40,), "b": (3,)})


POINT = Checkpoint(Path("step"), 1.0, "0" * 64)


def features(values: Any, ids: Any = (), **more: Any) -> Features:
    values = np.asarray(values, dtype=np.float64)
    tau = np.full(len(values), values.shape[1] if values.ndim == 3 else 1)
    return Features(values, tau, SKETCH.blocks, SKETCH.label, ids=tuple(ids), **more)


def test_each_number_is_a_neighbour_of_the_true_one_and_each_parameters_largest_is_kept() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 4, 43)) * 10.0 ** -np.array([0, 10, 30, 37])[:, None]
    values[..., 40:] *= 1e-6
    values[2, 3], values[3, 1, 40:] = 0, 0
    stored, scales = to_int8(values, SKETCH.blocks, [(str(k),) for k in range(5)])
    assert (stored.dtype, stored.shape, scales.dtype, scales.shape) == (np.int8, (5, 4, 43), np.float32, (5, 4, 2))
    read = from_int8(stored, scales, SKETCH.blocks)
    for columns, p in ((slice(0, 40), 0), (slice(40, 43), 1)):
        x, y = values[..., columns], read[..., columns]
        peak = np.abs(x).max(axis=-1, keepdims=True)
        assert (np.abs(x - y) <= peak / 127 * (1 + 1e-5) + 1e-44).all()
        np.testing.assert_allclose(np.abs(y).max(axis=-1, keepdims=True), peak, rtol=1e-6, atol=1e-44)
        np.testing.assert_allclose(rounding_variance(read, SKETCH.blocks)[..., p], (peak[..., 0] / 254) ** 2, rtol=1e-5,
                                   atol=1e-80)  # fmt: skip
    assert not read[2, 3].any()
    assert not read[3, 1, 40:].any()


def test_a_thousand_numbers_far_below_the_scale_have_the_right_sum() -> None:
    """To the nearest, all but the first would be zero. Each is 127 with probability 1 / 127; alpha 1e-4."""
    sketch = SketchMap.keep({"w": (1001,)})
    values = np.ones((1, 1001))
    values[0, 0] = 127 * 127
    read = from_int8(*to_int8(values, sketch.blocks, [("any",)]), sketch.blocks)
    assert abs(read[0, 1:].sum() / 127 - 1000 / 127) <= 3.9 * np.sqrt(1000 / 127 * (1 - 1 / 127))
    assert set(np.unique(read[0, 1:])) == {0.0, 127.0}


def test_rounding_is_drawn_from_the_example_its_place_and_the_sketch(tmp_path: Path) -> None:
    values = np.tile(np.linspace(-1, 1, 43), (2, 3, 1))
    store = Store.create(tmp_path / "s", SKETCH, {"dtype": "int8"})
    a = store.rounded("c", "train", features(values, ["x", "y"], outside=values[:, 0]))
    assert a.outside is not None
    assert (a.values[0] != a.values[1]).any()
    assert (a.values[0, 0] != a.values[0, 1]).any()
    assert (a.values[0, 0] != a.outside[0]).any()
    again = store.rounded("c", "train", features(values[:1, :2], ["x"]))  # another batch, with fewer steps
    np.testing.assert_array_equal(again.values[0], a.values[0, :2])
    for other in (("d", "train"), ("c", "query")):
        assert (store.rounded(*other, features(values[:1], ["x"])).values[0] != a.values[0]).any()


def test_a_store_reads_what_rounding_made_whether_by_rows_or_in_blocks(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(6, 3, 43))
    store = Store.create(tmp_path / "s", SKETCH, {"dtype": "int8"})
    given = features(values, list("abcdef"), outside=values[:, 0] / 7)
    with store.writing():
        store.append(POINT.key, "train", given, list("abcdef"))
    wanted = store.rounded(POINT.key, "train", given)
    read = Store(tmp_path / "s").read(POINT.key, "train", given.ids)
    np.testing.assert_array_equal(read.values, wanted.values)
    np.testing.assert_array_equal(read.outside, wanted.outside)
    ((names, (block,)),) = train_blocks(store, [POINT])
    assert names == list("abcdef")
    assert wanted.outside is not None
    np.testing.assert_allclose(block, wanted.values.sum(axis=1) + wanted.outside, rtol=1e-6, atol=1e-6)
    held = load_file(shards(tmp_path / "s")[0])
    assert held["values"].dtype == np.int8
    assert (held["values.scale"].shape, held["outside.scale"].shape) == ((6, 3, 2), (6, 2))


@pytest.mark.parametrize(("size", "words"), [(1e300, "do not fit into int8"), (1e-300, "are too small for int8")])
def test_features_beyond_float32_are_refused(tmp_path: Path, size: float, words: str) -> None:
    store = Store.create(tmp_path / "s", SKETCH, {"dtype": "int8"})
    with store.writing(), pytest.raises(StoreError, match=rf"{words}; use dtype='float64'"):
        store.append("a", "train", features(np.full((2, 43), size), ["x", "y"]), ["x", "y"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["query", "matrix"])
def test_scores_of_an_int8_store_are_within_their_error_bars(world: World, mode: str) -> None:
    """Without a sketch, what int8 rounds off is all of the error; a sixteenth of the bar is too little for many."""
    exact = world.attribute(m=None, mode=mode)
    store = world.folder / "int8"
    small = world.attribute(m=None, mode=mode, dtype="int8", store=store)
    for name in ("sdi", "tracin"):
        error = np.abs(getattr(small, name).values - getattr(exact, name).values)
        bar = (small.stderr if name == "sdi" else small.tracin_stderr).values
        assert (error <= 3 * bar).all()
        assert (error > bar / 16).mean() > 0.3
    before = {path: path.read_bytes() for path in shards(store)}
    world.attribute(m=None, mode=mode, dtype="int8", store=store, audit="first")  # one row of each side is made again
    assert {path: path.read_bytes() for path in shards(store)} == before
    streamed = sdi.stream_top(Store(store), sdi.find_checkpoints(world.folder / "ckpt/*.safetensors"), ["q-0"], k=3)
    assert [row.train for row in streamed[0]] == [row.train for row in small.top(3, query="q-0")]
