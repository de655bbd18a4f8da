"""Estimated error bars: they cover 95% where the bound does not, are narrower where it is too wide, and are as said.

Coverage is counted over SEEDS sketches, fixed beforehand, for the cells of one example's own pairs and of others'. A
claim of 95% is rejected if the mean share over sketches is below it by 3 standard errors of that mean: alpha = 0.0014 a
cell. Power: shares of 93% are rejected, and so are the estimate's own intervals, shrunk to a third.
"""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from attribution_cases import World, assert_close, counting, world

import sdi
import sdi.fast
from sdi import Features, SketchMap, Store
from sdi.inputs.checkpoints import find_checkpoints
from sdi.scores.estimated_error import MARGIN, WIDEST, estimate_of, estimated_variance
from sdi.scores.standard_error import Z95, doubts
from sdi.sketch.estimate_variance import Pairs

__all__ = ["world"]
SEEDS = range(2000, 2150)
CONFIG = sdi.LoopedConfig.looped_gpt(vocab=16, classes=16, d=16, heads=2, tau=2, prelude=0, core=1, coda=0, length=6)


def gradients(length: int) -> Features:
    """Of six examples with so many tokens; with one, every step's gradient is an outer product: the worst case."""
    model = sdi.fast.LoopedTransformer.init(CONFIG, seed=0).double()
    random = torch.Generator().manual_seed(0)
    batch = {name: torch.randint(0, 16, (6, length), generator=random) for name in ("tokens", "targets")}
    return sdi.fast.featurize(model, sdi.fast.token_cross_entropy, batch, loop=CONFIG.loop(), audit="off")


class Counts(NamedTuple):
    """Of every sketch and score: how far off it is, and what error is claimed; and which pairs are an example's own."""

    off: np.ndarray
    errors: dict[str, np.ndarray]
    own: np.ndarray

    def inside(self, bars: str, own: bool, shrink: float = 1.0) -> np.ndarray:
        """For each sketch, the share of intervals that hold the exact score."""
        held = self.off <= Z95 * self.errors[bars] / shrink
        return np.asarray(held[:, self.own == own].mean(axis=1))

    def ratio(self, bars: str, own: bool) -> float:
        """Claimed over measured deviation, in the median."""
        claimed, measured = (np.sqrt(np.square(x).mean(axis=0)) for x in (self.errors[bars], self.off))
        return float(np.median((claimed / measured)[self.own == own]))


def rejects(inside: np.ndarray) -> bool:
    """Whether these shares speak against a coverage of 95%."""
    return bool(inside.mean() + 3 * inside.std() / np.sqrt(len(inside)) < 0.95)


@cache
def count(length: int, sketch: str, m: int) -> Counts:
    """Of gradients against steps."""
    f = gradients(length)
    n, tau, D = f.phi.shape
    phi, shapes = f.phi.reshape(n * tau, D), {b.name: b.shape for b in f.blocks}
    scores, errors = [], {"bound": [], "estimated": []}
    for seed in SEEDS:
        drawn = SketchMap.draw(shapes, m, seed, sketch=sketch)
        a, b = (drawn.apply(split(f, x)) for x in (f.g, phi))
        scores.append(a @ b.T)
        errors["estimated"].append(np.sqrt(estimated_variance(drawn, a, b, np.ones(len(drawn.blocks)))))
        norms = (np.outer(*(np.square(x[:, k.start : k.stop]).sum(1) for x in (a, b))) for k in drawn.blocks)
        bound = sum(s.variance_factor() * norm for s, norm in zip(drawn.sketches.values(), norms, strict=True))
        errors["bound"].append(np.sqrt(bound))
    off = np.abs(np.array(scores) - f.g @ phi.T)
    return Counts(off, {k: np.array(e) for k, e in errors.items()}, np.repeat(np.eye(n, dtype=bool), tau, axis=1))


def split(f: Features, x: np.ndarray) -> dict[str, np.ndarray]:
    return {b.name: x[:, b.start : b.stop].reshape(len(x), *b.shape) for b in f.blocks}


def test_the_counting_rejects_what_covers_too_little() -> None:
    rng = np.random.default_rng(0)
    assert not rejects((rng.random((150, 60)) < 0.95).mean(axis=1))
    assert rejects((rng.random((150, 60)) < 0.93).mean(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 6])
@pytest.mark.parametrize("sketch", ["tensor", "sparse", "hadamard"])
def test_95_percent_of_intervals_hold_the_exact_score(sketch: str, length: int) -> None:
    found = count(length, sketch, 64)
    for own in (True, False):
        assert not rejects(found.inside("estimated", own))
        assert found.inside("estimated", own).mean() >= 0.95
        assert rejects(found.inside("estimated", own, shrink=3))


def test_between_two_examples_they_are_much_narrower_than_the_bound() -> None:
    found = count(6, "tensor", 64)
    assert found.ratio("bound", own=False) > 1.9
    assert 1.0 < found.ratio("estimated", own=False) < 1.5


@pytest.mark.slow
def test_the_bound_covers_too_little_of_an_example_on_itself_where_a_sketch_is_coarse() -> None:
    """One token's gradient, which is the worst case, through a two-sided projection to 8 x 8 numbers."""
    found = count(1, "kronecker", 64)
    assert rejects(found.inside("bound", own=True))
    assert found.inside("bound", own=True).mean() < 0.9
    assert found.inside("estimated", own=True).mean() > 0.93


def test_an_estimate_is_that_of_every_sketch_widened_by_its_definition() -> None:
    shapes = {"w": (12, 12), "k": (9, 20), "h": (16, 9), "m": (12, 12), "b": (70,), "small": (5,)}
    rule = {"k": "kronecker", "h": "hadamard", "m": "mask", "*": "tensor"}
    sketch = SketchMap.draw(shapes, 32, sketch=rule)
    rng = np.random.default_rng(0)
    x, y, eta = rng.normal(size=(4, sketch.size)), rng.normal(size=(3, 2, sketch.size)), rng.random(len(shapes))
    found = estimated_variance(sketch, x, y, eta)
    assert found.shape == (4, 3, 2)
    for i, j, t in np.ndindex(found.shape):
        variance = score = norms = 0.0
        for block, weight in zip(sketch.blocks, eta, strict=True):
            a, b = x[i, block.start : block.stop], y[j, t, block.start : block.stop]
            variance += weight**2 * float(estimate_of(sketch.sketches[block.name], Pairs.of(a[None], b[None]))[0, 0])
            score += weight * float(a @ b)
            norms += weight * float(np.linalg.norm(a) * np.linalg.norm(b))
        r = np.sqrt(variance) * abs(score) / norms**2
        assert found[i, j, t] == pytest.approx(variance * (MARGIN / (1 - min(r, WIDEST))) ** 2, rel=1e-10)


@pytest.mark.parametrize("sketch", ["tensor", "kronecker", "hadamard", "sparse", "gaussian", "rademacher"])
def test_every_estimate_lies_between_a_quarter_of_the_bound_and_the_bound(sketch: str) -> None:
    (drawn,) = SketchMap.draw({"w": (40, 30)}, 36, sketch=sketch).sketches.values()
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, drawn.size)), rng.normal(size=(5, drawn.size))
    a[0], b[1] = b[0], 0.0
    found = estimate_of(drawn, Pairs.of(a, b))
    bound = drawn.variance_factor() * np.outer(np.square(a).sum(1), np.square(b).sum(1))
    assert (found <= bound * (1 + 1e-12)).all()
    assert (found >= bound * (1 - 1e-12) / 4).all()
    assert found[0, 0] == pytest.approx(bound[0, 0])
    assert not found[:, 1].any()


def test_pairs_are_taken_in_chunks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = SketchMap.draw({"w": (12, 12)}, 32)
    x, y = np.random.default_rng(0).normal(size=(2, 7, sketch.size))
    whole = estimated_variance(sketch, x, y, np.ones(1))
    monkeypatch.setattr("sdi.scores.estimated_error.CHUNK_BYTES", 2 * 8 * 32)
    with counting(sdi.scores.estimated_error, "_of_rows", lambda sketch, rows, *rest: len(rows)) as rows:
        assert_close(estimated_variance(sketch, x, y, np.ones(1)), whole)
    assert rows == [2, 2, 2, 1]


def test_numbers_of_any_size_keep_their_error_in_float32() -> None:
    """Fourth powers of numbers around 1e-20 or 1e15 do not fit into float32."""
    sketch = SketchMap.draw({"w": (12, 12)}, 32)
    x, y = np.random.default_rng(0).normal(size=(2, 7, sketch.size))
    wanted = estimated_variance(sketch, x, y, np.ones(1))
    for size in (1e-20, 1e15):
        found = estimated_variance(sketch, *((size * side).astype(np.float32) for side in (x, y)), np.ones(1))
        np.testing.assert_allclose(found / size**4, wanted, rtol=1e-4)


class Own(sdi.sketch.shipped.count_and_tensor.CountSketch):
    """A user's class: a store keeps its claim, not its code."""


def test_a_users_sketch_has_the_bound_that_it_claims_from_a_store_as_well(world: World) -> None:
    own = Own.draw((9,), 4)
    a, b = np.ones((2, 4)), np.ones((3, 4))
    np.testing.assert_array_equal(estimate_of(own, Pairs.of(a, b)), np.full((2, 3), own.variance_factor() * 16))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["query", "train", "matrix", "tracin"])
def test_a_run_says_how_its_error_bars_were_made_and_takes_them_from_the_setting(world: World, mode: str) -> None:
    auto, bound, estimated = (world.attribute(mode=mode, stderr=bars) for bars in ("auto", "bound", "estimated"))
    assert [r.info["settings"]["stderr"] for r in (auto, bound, estimated)] == ["estimated", "bound", "estimated"]
    np.testing.assert_array_equal(auto.stderr.values, estimated.stderr.values)
    assert auto.stderr.values.shape == bound.stderr.values.shape
    assert (auto.stderr.values[bound.stderr.values > 0] > 0).all()
    assert np.median(auto.stderr.values / bound.stderr.values) < 1
    np.testing.assert_array_equal(auto.sdi.values, bound.sdi.values)


@pytest.mark.slow
def test_the_ranking_and_the_parts_of_a_store_take_the_same_bars_as_its_result(world: World) -> None:
    world.attribute(store=world.store)
    points, store = find_checkpoints(world.folder / "ckpt/*.safetensors"), Store(world.store)
    for bars in ("auto", "bound", "estimated"):
        result = world.attribute(store=world.store, stderr=bars)
        (streamed,) = sdi.stream_top(store, points, ["q-0"], 7, stderr=bars)
        kept = result.top(7, query="q-0")
        np.testing.assert_allclose([r.stderr for r in streamed], [r.stderr for r in kept], rtol=1e-12)
    parts = {bars: sdi.parts(store, points, "q-0", ["t-0"], bars).stderr.values for bars in ("auto", "bound")}
    assert (parts["auto"] != parts["bound"]).any()


@pytest.mark.slow
def test_a_store_that_was_begun_before_there_was_a_choice_keeps_the_bound(world: World) -> None:
    bound = world.attribute(store=world.store, stderr="bound")
    manifest = world.store / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["stderr"], content["sha256"]  # as version 1 wrote it
    manifest.write_text(json.dumps({**content, "version": 1}))
    for sidecar in world.store.rglob("shard-*.json"):
        sidecar.unlink()
    again = world.attribute(store=world.store)
    np.testing.assert_array_equal(again.stderr.values, bound.stderr.values)
    assert again.info["settings"]["stderr"] == "bound"
    chosen = world.attribute(store=world.store, stderr="estimated")
    assert (chosen.stderr.values != bound.stderr.values).any()


def test_what_is_no_kind_of_error_bar_is_refused(world: World) -> None:
    world.attribute(store=world.store)
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")
    for call in (
        lambda: world.attribute(stderr="exact"),
        lambda: sdi.stream_top(Store(world.store), points, ["q-0"], stderr="exact"),
        lambda: sdi.parts(Store(world.store), points, "q-0", ["t-0"], "exact"),
    ):
        with pytest.raises(ValueError, match=r"^stderr must be one of .*'auto', 'bound', 'estimated'.*, got 'exact'"):
            call()


@pytest.mark.parametrize(("m", "bound", "estimated"), [(2048, False, False), (256, True, True), (900, True, False)])
def test_a_coarse_sketch_is_said_to_cover_less_of_self_influence(m: int, bound: bool, estimated: bool) -> None:
    sketch = SketchMap.draw({"w": (300, 300)}, m, sketch="kronecker" if m < 2048 else "tensor")
    for bars, said in (("bound", bound), ("estimated", estimated)):
        notes = doubts(sketch, bars)
        assert any("may cover less of the influence of an example on itself" in note for note in notes) == said
        assert any("stderr='estimated'" in note for note in notes) == (said and bars == "bound")
