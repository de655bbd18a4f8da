"""What `attribute` is told, what it refuses and what it tells: arguments, progress, errors, the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    QUERY,
    TRAIN,
    World,
    assert_same_result,
    counting,
    save_checkpoint,
    world,
)

import sdi
import sdi.fast
import sdi.reference
from sdi import Loop
from sdi.fast import token_cross_entropy

__all__ = ["world"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "steps"}, r"^mode must be one of \('query', 'train', 'matrix', 'tracin'\), got 'steps'$"),
        ({"backend": "slow"}, r"^backend must be one of \('fast', 'exact', 'reference'\), got 'slow'$"),
        ({"dtype": "int4"}, r"^dtype must be one of \('float32', 'float16', 'int8', 'float64'\), got 'int4'$"),
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_widths_of_each_parameter_may_be_numpys(world: World) -> None:
    shapes = sdi.fast.body_shapes(world.model, world.loop)
    wanted = world.attribute(m=dict.fromkeys(shapes, 16))
    assert_same_result(world.attribute(m=dict.fromkeys(shapes, np.int32(16))), wanted)
    with pytest.raises(TypeError, match=r"^m of 'core.* must be an integer, got 1.5$"):
        world.attribute(m=dict.fromkeys(shapes, 1.5))


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert result.labels["query"] == tuple(i for b in QUERY for i in b["id"])
    assert result.labels["train"] == tuple(i for b in TRAIN for i in b["id"])
