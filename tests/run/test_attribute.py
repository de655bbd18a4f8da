"""attribute: modes, backends and repeats say the same of the same data, and what enters outside the loop is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    CONFIG,
    QUERY,
    TRAIN,
    World,
    assert_close,
    assert_same_result,
    counting,
    dense,
    make_model,
    ragged,
    save_checkpoint,
    world,
)

import sdi
import sdi.fast
import sdi.reference
from sdi import Loop, SketchMap
from sdi.fast import token_cross_entropy

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
        assert r.sdi.coords["step"] == (1, 2, 3, 4)
        for j, tau in enumerate(r.tau.values):
            assert not r.sdi.values[:, j, tau:].any()
            assert not r.stderr.values[:, j, tau:].any()
            assert r.sdi.values[:, j, tau - 1].all()
    alone = world.attribute(query=[{k: v[:1] for k, v in query[1].items()}])
    assert_close(result.sdi.sel(query="q-3").values, alone.sdi.values[:, 0])
    assert_close(world.attribute(train=ragged(7, "t", 4), mode="train").tau.values, [1, 2, 1, 4, 3, 1, 2])


class Halting(torch.nn.Module):
    """A loop whose length is in its weights: it takes more steps at one checkpoint than at another."""

    def __init__(self, tau: int = 2) -> None:
        super().__init__()
        self.inject, self.core, self.coda = torch.nn.Identity(), torch.nn.Linear(4, 4), torch.nn.Identity()
        self.register_buffer("steps", torch.tensor(tau))
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(self.steps)):
            x = torch.tanh(self.core(self.inject(x)))
        return self.coda(x)


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
    for eta, point in zip((0.5, 0.25), result.by_checkpoint.coords["checkpoint"], strict=True):
        g = store.read(point, "train", result.sdi.coords["train"])
        phi = store.read(point, "query", result.sdi.coords["query"])
        variance: Any = 0.0
        for b in store.blocks:
            a, c = (np.square(f.values[..., b.start : b.stop]).sum(axis=-1) for f in (g, phi))
            variance = variance + worst_case(store.sketch.sketches[b.name]) * a[:, None, None] * c[None]
        wanted = wanted + eta * np.sqrt(variance)
    assert_close(result.stderr.values, wanted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "steps"}, r"^mode must be one of \('query', 'train', 'matrix', 'tracin'\), got 'steps'$"),
        ({"backend": "slow"}, r"^backend must be one of \('fast', 'exact', 'reference'\), got 'slow'$"),
        ({"dtype": "int8"}, r"^dtype must be one of \('float32', 'float16', 'float64'\), got 'int8'$"),
        ({"repeats": 0}, "^repeats must be at least 1, got 0$"),
        ({"shard": 0}, "^shard must be at least 1, got 0$"),
        ({"m": 0}, "^m must be at least 1, got 0$"),
        ({"m": -3, "backend": "exact"}, "^m must be at least 1, got -3$"),
        ({"m": None, "family": "polynomail"}, "^family must be one of "),
        ({"budget": -5, "backend": "reference"}, "^budget must be at least 1 MiB"),
        ({"audit": "maybe", "backend": "reference"}, "^audit must be one of "),
        (
            {"backend": "exact", "repeats": 2},
            "^repeats must be 1 with backend='exact', which has no sketch to draw again, got 2$",
        ),
        (
            {"backend": "exact", "mode": "matrix"},
            "^mode must be 'query' or 'tracin' with backend='exact', got 'matrix'",
        ),
        (
            {"backend": "exact", "store": "x"},
            "^store must be None with backend='exact', which keeps no features, got 'x'$",
        ),
        ({"audit": "maybe"}, "^audit must be one of "),
        ({"memory": "all"}, "^memory must be one of "),
        ({"loop": Loop("coer", "inject")}, "^body entry 'coer' matches no parameter of the model; did you mean 'core'"),
    ],
)
def test_wrong_words_are_refused(world: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        world.attribute(**options)
    assert not Path("x").exists()


@pytest.mark.parametrize("name", ["m", "seed", "repeats", "shard", "budget"])
def test_whole_numbers_may_be_numpys_and_must_be_whole(world: World, name: str) -> None:
    value = {"m": 16, "seed": 3, "repeats": 2, "shard": 2, "budget": 1 << 30}[name]
    result, wanted = (world.attribute(**{name: kind(value)}) for kind in (np.int64, int))
    assert_same_result(result, wanted)
    result.save(world.folder / "r.safetensors")
    assert sdi.load(world.folder / "r.safetensors").info == wanted.info
    for bad in (2.0, "2", True, np.float32(2)):
        with pytest.raises(TypeError, match=f"^{name} must be an integer, got "):
            world.attribute(**{name: bad})


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("loop", r"must be an sdi\.Loop, such as sdi\.Loop\(body="),
        ("loss", "must be a function of the model and a batch"),
        ("checkpoints", "must be paths or patterns"),
    ],
)
def test_a_forgotten_argument_is_named(world: World, name: str, rule: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} {rule}.*, got None$"):
        world.attribute(**{name: None})


def test_a_model_must_be_a_module(world: World) -> None:
    with pytest.raises(TypeError, match=r"^model must be a torch\.nn\.Module, got None$"):
        sdi.attribute(None, **world.options())


def test_widths_of_each_parameter_may_be_numpys(world: World) -> None:
    shapes = sdi.fast.body_shapes(world.model, world.loop)
    wanted = world.attribute(m=dict.fromkeys(shapes, 16))
    assert_same_result(world.attribute(m=dict.fromkeys(shapes, np.int32(16))), wanted)
    with pytest.raises(TypeError, match=r"^m of 'core.* must be an integer, got 1.5$"):
        world.attribute(m=dict.fromkeys(shapes, 1.5))


def test_the_exact_backend_tells_of_progress_and_keeps_to_the_budget(world: World) -> None:
    seen: list[Any] = []
    with counting(sdi.fast, "exact_scores") as calls, pytest.MonkeyPatch.context() as patch:
        exact = sdi.fast.exact_scores
        given: list[Any] = []
        patch.setattr(sdi.fast, "exact_scores", lambda *a, **options: (given.append(options), exact(*a, **options))[1])
        world.attribute(backend="exact", progress=seen.append, budget=1 << 30, memory="recompute")
    assert len(calls) == 2
    assert [(o["budget"], o["memory"], o["audit"]) for o in given] == [(1 << 30, "recompute", "off")] * 2
    assert [(p.checkpoint, p.checkpoints, p.side, p.done, p.reused) for p in seen] == [
        (c, 2, side, n, 0) for c in (1, 2) for side, n in (("train", 7), ("query", 3))
    ]


def test_the_exact_backend_wants_one_eta_per_checkpoint(world: World) -> None:
    save_checkpoint(world.paths[1], world.points[1], {"core": 0.5})
    with pytest.raises(ValueError, match=r"must be one number with backend='exact'; use m=None instead"):
        world.attribute(backend="exact")


def test_progress_tells_of_every_batch(world: World) -> None:
    for reused in (0, 1):
        seen: list[Any] = []
        world.attribute(store=world.store, progress=seen.append)
        assert [(p.checkpoint, p.checkpoints, p.side, p.done) for p in seen] == [
            (c, 2, side, done) for c in (1, 2) for side, done in (*(("train", d) for d in (3, 6, 7)), ("query", 3))
        ]
        assert all(p.reused == reused * p.done for p in seen)


def test_a_nan_in_a_checkpoint_is_an_error_that_says_where(world: World) -> None:
    with torch.no_grad():
        world.points[1].core[0].mlp.down.weight[2, 3] = torch.nan
    save_checkpoint(world.paths[1], world.points[1], 0.25)
    for backend in ("fast", "exact"):
        with pytest.raises(sdi.NonFiniteError, match=r"is nan; check .*checkpoint .*/step-10.safetensors\)$"):
            world.attribute(backend=backend)


def test_an_error_of_ours_says_at_which_checkpoint_and_of_which_side(world: World) -> None:
    def mean(model: Any, batch: Any) -> Any:
        return token_cross_entropy(model, batch).mean()

    def wrong(model: Any, batch: Any) -> Any:
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "as it was")

    with pytest.raises(ValueError, match=r"one value per example.* \(train, checkpoint .*/step-9.safetensors\)$"):
        world.attribute(loss=mean)
    with pytest.raises(UnicodeDecodeError, match=r"as it was$"):  # its message is not one text
        world.attribute(loss=wrong)


def test_the_audit_runs_unless_it_is_off(world: World) -> None:
    def mixed(model: Any, batch: Any) -> Any:
        losses = token_cross_entropy(model, batch)
        return losses * losses.mean()

    with pytest.raises(sdi.AuditError, match=r"\(train, checkpoint .*/step-9.safetensors\)$"):
        world.attribute(loss=mixed, audit="first", store=world.store)
    assert not world.store.exists()

    def averaged(model: Any, batch: Any) -> Any:
        losses = token_cross_entropy(model, batch)
        return losses / len(losses)

    with pytest.raises(sdi.AuditError, match="divided by the size of the batch"):
        world.attribute(loss=averaged, audit="first")
    world.attribute(loss=averaged, audit="off")


@pytest.mark.slow
def test_the_defaults_are_those_of_the_text(world: World) -> None:
    options = {k: v for k, v in world.options().items() if k not in ("m", "dtype", "audit")}
    result = sdi.attribute(world.model, **options)
    settings = result.info["settings"]
    assert (settings["m"], settings["seed"], settings["mode"], settings["backend"]) == (2048, 0, "query", "fast")
    assert result.sdi.values.dtype == np.float32
    assert result.sdi.coords["query"] == tuple(i for b in QUERY for i in b["id"])
    assert result.sdi.coords["train"] == tuple(i for b in TRAIN for i in b["id"])
