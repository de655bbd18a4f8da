"""attribute: modes, backends and repeats say the same of the same data, and what enters outside the loop is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    CONFIG,
    World,
    assert_close,
    assert_same_result,
    dense,
    make_model,
    ragged,
    save_checkpoint,
    world,
)
from looped_models import Halting

import sdi
import sdi.fast
import sdi.reference
from sdi import Loop, SketchMap

__all__ = ["world"]
MODES = ("query", "train", "matrix", "tracin")


@pytest.mark.slow
@pytest.mark.parametrize("m", [32, None])
def test_every_mode_sums_to_the_next(world: World, m: int | None) -> None:
    query, train, matrix, tracin = (world.attribute(mode=mode, m=m, query=ragged(5, "q", 3)) for mode in MODES)
    assert_close(matrix.sdi.sum("train_step").values, query.sdi.values)
    assert_close(matrix.sdi.sum("step").values, train.sdi.values)
    for result in (query, train, matrix):
        assert_close(result.tracin.values, tracin.tracin.values)
        assert_close(result.tracin_stderr.values, tracin.tracin_stderr.values)
    assert matrix.sdi.dims == ("train", "query", "train_step", "step")
    assert tracin.sdi.dims == tracin.tracin.dims == ("train", "query")
    assert_close(tracin.stderr.values, tracin.tracin_stderr.values)
    assert query.stderr.values.any() == (m is not None)


@pytest.mark.slow
def test_without_a_sketch_it_is_the_definition_and_the_exact_backend(world: World) -> None:
    whole, exact = world.attribute(m=None), world.attribute(backend="exact")
    wanted = [
        eta * np.einsum("nd,qtd->nqt", g.g, phi.phi) for eta, g, phi in zip((0.5, 0.25), *dense(world), strict=True)
    ]
    assert_close(whole.by_checkpoint.values, np.stack(wanted))
    assert_same_result(exact, whole, rtol=1e-12)
    assert not whole.stderr.values.any()
    totals = (world.attribute(mode="tracin", **options) for options in ({"m": None}, {"backend": "exact"}))
    for total in totals:
        assert_close(total.tracin.values, np.sum(wanted, axis=(0, -1)))


@pytest.mark.slow
def test_sketched_scores_are_those_of_the_sketched_gradients(world: World) -> None:
    result = world.attribute(seed=5)
    assert result.sdi.values.dtype == np.float64
    wanted: Any = 0.0
    for eta, g, phi in zip((0.5, 0.25), *dense(world), strict=True):
        sketch = SketchMap.draw({b.name: b.shape for b in g.blocks}, 32, 5)

        def sketched(x: np.ndarray, sketch: SketchMap = sketch, blocks: Any = g.blocks) -> np.ndarray:
            return sketch.apply({b.name: x[..., b.start : b.stop].reshape(*x.shape[:-1], *b.shape) for b in blocks})

        wanted = wanted + eta * np.einsum("nd,qtd->nqt", sketched(g.g), sketched(phi.phi))
    assert_close(result.sdi.values, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "spread"), [(32, False), (32, True), (None, False)])
@pytest.mark.parametrize("mode", MODES)
def test_the_reference_backend_gives_the_same(world: World, mode: str, m: int | None, spread: bool) -> None:
    config = replace(CONFIG, prelude=1, injection="concat")
    points = [make_model(seed, config) for seed in (1, 2)]
    paths = [save_checkpoint(world.folder / f"r/{k}.safetensors", p, 0.5) for k, p in enumerate(points)]
    sides = {"train": ragged(4, "t", 1), "query": ragged(2, "q", 2)}
    options = {
        "checkpoints": paths,
        "m": m,
        "mode": mode,
        "spread": spread,
        "loop": Loop(["prelude", "inject", "core"], "inject", "coda"),
    }
    world.model = make_model(0, config)
    fast = world.attribute(**options, **sides)
    arrays = {s: [{k: v if k == "id" else v.numpy() for k, v in b.items()} for b in side] for s, side in sides.items()}
    slow = sdi.attribute(
        sdi.reference.LoopedTransformer.init(config, seed=0),
        **world.options(**options, **arrays, backend="reference", loss=sdi.reference.token_cross_entropy),
    )
    assert_same_result(slow, fast, rtol=1e-10)


@pytest.mark.slow
def test_what_enters_outside_the_loop_is_counted_and_told(world: World) -> None:
    config = replace(CONFIG, prelude=1)
    loop = Loop(["prelude", "core"], "inject", "coda")
    paths = [save_checkpoint(world.folder / f"o/{k}.safetensors", make_model(k, config), 0.5) for k in range(2)]
    world.model = make_model(9, config)
    totals = {
        name: world.attribute(checkpoints=paths, loop=loop, **options)
        for name, options in {
            **{mode: {"m": None, "mode": mode} for mode in MODES},
            "exact": {"backend": "exact"},
        }.items()
    }
    wanted = totals["tracin"].tracin.values
    for name in ("query", "train", "matrix", "exact"):
        result = totals[name]
        steps = result.sdi.values.reshape(*wanted.shape, -1).sum(axis=-1)
        assert np.abs(result.outside.values).max() > 1e-3 * np.abs(wanted).max()
        assert_close(steps + result.outside.values, wanted)
        assert_close(result.tracin.values, wanted)
        assert any("outside the loop" in note for note in result.notes)
    assert not totals["tracin"].outside.values.any()


@pytest.mark.slow
def test_examples_of_different_tau_are_padded_with_zeros(world: World) -> None:
    query = ragged(7, "q", 4)
    result = world.attribute(query=query)
    exact, whole = world.attribute(query=query, backend="exact"), world.attribute(query=query, m=None)
    assert_same_result(exact, whole, rtol=1e-12)
    for r in (result, exact):
        assert r.tau.values.tolist() == [1, 2, 1, 4, 3, 1, 2]
        assert r.labels["step"] == (1, 2, 3, 4)
        for j, tau in enumerate(r.tau.values):
            assert not r.sdi.values[:, j, tau:].any()
            assert not r.stderr.values[:, j, tau:].any()
            assert r.sdi.values[:, j, tau - 1].all()
    alone = world.attribute(query=[{k: v[:1] for k, v in query[1].items()}])
    assert_close(result.sdi.sel(query="q-3").values, alone.sdi.values[:, 0])
    assert_close(world.attribute(train=ragged(7, "t", 4), mode="train").tau.values, [1, 2, 1, 4, 3, 1, 2])


def test_a_model_may_take_more_steps_at_one_checkpoint_than_at_another(world: World) -> None:
    paths = []
    for k, tau in enumerate((2, 4)):
        torch.manual_seed(k)
        paths.append(save_checkpoint(world.folder / f"h/{k}.safetensors", Halting(tau), 1.0))
    world.model = Halting(3)  # type: ignore[assignment]
    x = [{"x": torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))}]
    options = {"loss": lambda model, batch: model(batch["x"]).square().sum(dim=1), "train": x, "query": x}
    for backend in ("fast", "exact"):
        both = world.attribute(checkpoints=paths, backend=backend, m=None, **options)
        for k in range(2):
            one = world.attribute(checkpoints=paths[k], backend=backend, m=None, **options)
            assert_close(both.by_checkpoint.values[k, ..., : one.sdi.shape[2]], one.sdi.values)
        assert both.sdi.shape == (3, 3, 4)
        assert both.tau.values.tolist() == [4, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [2, 5])
def test_repeats_average_over_seeds_and_measure_the_spread(world: World, repeats: int) -> None:
    runs = [world.attribute(seed=7 + r) for r in range(repeats)]
    result = world.attribute(seed=7, repeats=repeats)
    assert_close(result.sdi.values, np.mean([r.sdi.values for r in runs], axis=0))
    assert_close(result.tracin.values, np.mean([r.tracin.values for r in runs], axis=0))
    t = {2: 12.706204736174694, 5: 2.7764451051977934}[repeats]  # Student's 97.5% quantile
    for name, error in (("sdi", result.stderr), ("tracin", result.tracin_stderr)):
        spread = np.std([getattr(r, name).values for r in runs], axis=0, ddof=1) / np.sqrt(repeats)
        assert_close(error.values, spread * t / 1.959963984540054, rtol=1e-9)


def test_the_standard_error_is_the_bound_of_every_parameters_part(world: World) -> None:
    from sdi.sketch.bounds import worst_case

    result = world.attribute(store=world.store, stderr="bound")
    store = sdi.Store(world.store)
    wanted: Any = 0.0
    for eta, point in zip((0.5, 0.25), result.labels["checkpoint"], strict=True):
        g = store.read(point, "train", result.labels["train"])
        phi = store.read(point, "query", result.labels["query"])
        variance: Any = 0.0
        for b in store.blocks:
            a, c = (np.square(f.values[..., b.start : b.stop]).sum(axis=-1) for f in (g, phi))
            variance = variance + worst_case(store.sketch.sketches[b.name]) * a[:, None, None] * c[None]
        wanted = wanted + eta * np.sqrt(variance)
    assert_close(result.stderr.values, wanted)
