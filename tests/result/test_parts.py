"""parts: influence by parameter and step; what the parts sum to, how sure they are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import TRAIN, World, assert_close, ragged, world

import sdi
from sdi import Loop, Parts, Store
from sdi.inputs.checkpoints import find_checkpoints

__all__ = ["world"]
SOME = ["t-5", "t-0"]


def find_parts(world: World, **changes: Any) -> tuple[Parts, sdi.Result]:
    """Of two training examples on the second query, and the result whose rows they split."""
    result = world.attribute(store=world.store, **changes)
    points = find_checkpoints(world.folder / "ckpt/*.safetensors", changes.get("eta"))
    return sdi.parts(Store(world.store), points, "q-1", SOME, changes.get("stderr", "auto")), result


def rows_of(array: Any) -> np.ndarray:
    return np.asarray(array.sel(query="q-1", train=list(SOME)).values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"m": None},
        {"eta": [{"core": 0.1, "core.0.mlp": 0.3}, 0.0]},
        {"dtype": "float16"},
        {"mode": "matrix"},
        {"loop": Loop(["core", "norm_out"], "inject", "coda")},
        {"query": ragged(5, "q", 3)},
    ],
    ids=["sketched", "whole", "eta by parameter", "float16", "matrix", "outside the loop", "ragged"],
)
def test_the_parts_of_an_example_sum_to_its_influence(world: World, changes: dict[str, Any]) -> None:
    parts, result = find_parts(world, **changes)
    by_step = result.sdi.sum("train_step") if result.mode == "matrix" else result.sdi
    assert parts.sdi.dims == ("train", "parameter", "step")
    assert list(parts.sdi.coords["train"].values) == list(SOME)
    rtol = 1e-6 if parts.sdi.values.dtype == np.float32 else 1e-12
    assert_close(parts.sdi.sum("parameter").values, rows_of(by_step), rtol=rtol)
    assert_close(parts.tracin.sum("parameter").values, rows_of(result.tracin), rtol=rtol)
    if "norm_out.weight" in parts.sdi.coords["parameter"].values:
        assert not parts.sdi.sel(parameter="norm_out.weight").values.any()
        assert parts.tracin.sel(parameter="norm_out.weight").values.all()


@pytest.mark.slow
def test_a_part_is_the_influence_through_that_parameter_alone(world: World) -> None:
    parts, _ = find_parts(world, m=None)
    for name in ("core.0.attn.o.weight", "core.0.norm1.bias"):
        alone = world.attribute(m=None, loop=Loop(name, "inject", "coda"))
        assert_close(parts.sdi.sel(parameter=name).values, rows_of(alone.sdi))
        assert_close(parts.tracin.sel(parameter=name).values, rows_of(alone.tracin))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_variances_of_the_parts_add_up_within_a_checkpoint(world: World, dtype: str) -> None:
    world.paths[1].unlink()
    parts, result = find_parts(world, dtype=dtype, stderr="bound")
    for found, wanted in ((parts.stderr, result.stderr), (parts.tracin_stderr, result.tracin_stderr)):
        assert_close(np.sqrt(np.square(found.values).sum(axis=1)), rows_of(wanted))
    kept = parts.stderr.sel(parameter="core.0.norm1.bias").values  # no more numbers than m: not sketched
    assert (kept.max() == 0) == (dtype == "float64")


@pytest.mark.slow
def test_estimated_parts_are_each_widened_for_themselves(world: World) -> None:
    """A part's score is as uncertain as its own norms; the sum's error averages over parameters, and is less."""
    world.paths[1].unlink()
    parts, result = find_parts(world)
    for found, wanted in ((parts.stderr, result.stderr), (parts.tracin_stderr, result.tracin_stderr)):
        added = np.sqrt(np.square(found.values).sum(axis=1))
        assert (added >= rows_of(wanted)).all()
        assert (added <= 1.5 * rows_of(wanted)).all()
    assert not parts.stderr.sel(parameter="core.0.norm1.bias").values.any()


def test_deviations_add_over_checkpoints(world: World) -> None:
    both, _ = find_parts(world)
    ones = [sdi.parts(Store(world.store), [point], "q-1", SOME) for point in find_checkpoints(world.paths)]
    assert_close(both.stderr.values, sum(one.stderr.values for one in ones))
    assert_close(both.tracin_stderr.values, sum(one.tracin_stderr.values for one in ones))


@pytest.mark.slow
def test_what_has_no_parts_is_refused(world: World) -> None:
    find_parts(world)
    store, points = Store(world.store), find_checkpoints(world.paths)
    for bad in ("t-0", []):
        with pytest.raises(ValueError, match=r"^train must be a list of ids, got "):
            sdi.parts(store, points, "q-1", bad)
    with pytest.raises(ValueError, match=r"^checkpoints must be a list of checkpoints, .*, got \[\], which is empty$"):
        sdi.parts(store, [], "q-1", ["t-0"])
    with pytest.raises(ValueError, match=r"^no train example 't-00' among the 7 stored; did you mean 't-0'"):
        sdi.parts(store, points, "q-1", ["t-00"])
    with pytest.raises(ValueError, match=r"^no query example 'q-9' among the 3 stored"):
        sdi.parts(store, points, "q-9", ["t-0"])
    world.attribute(store=world.folder / "other", mode="train")
    with pytest.raises(ValueError, match="holds queries without steps"):
        sdi.parts(Store(world.folder / "other"), points, "q-1", ["t-0"])


@pytest.mark.slow
def test_parts_are_drawn(world: World, tmp_path: Path) -> None:
    parts, _ = find_parts(world, train=TRAIN)
    parts.plot(tmp_path / "p.png", train="t-0")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no train 't-1' among 2"):
        parts.plot(tmp_path / "q.png", train="t-1")
    assert not (tmp_path / "q.png").exists()
