"""Any sketch in runs, stores, configs and choose_m."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import QUERY, World, assert_close, world
from sketch_cases import MINE, Bare, WithTwin, mine

import sdi
import sdi.fast
import sdi.reference
from sdi import Sketch, SketchMap, Store
from sdi.errors import SketchMismatch, StoreError
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.inputs.config import read_config, save_run
from sdi.sketch.as_json import RecordedSketch
from sdi.sketch.bounds import worst_case
from sdi.sketch.load import sketch_text

__all__ = ["mine", "world"]


@pytest.mark.parametrize("spec", ["hadamard", {"*.bias": "exact", "*": "sparse-2"}, WithTwin])
def test_attribute_scores_the_sketched_gradients_with_the_claimed_errors(world: World, spec: Any) -> None:
    result = world.attribute(sketch=spec, seed=5, stderr="bound", store=world.store)
    store = Store(world.store)
    sketch = SketchMap.draw({b.name: b.shape for b in store.blocks}, 32, 5, sketch=spec)
    assert store.sketch == sketch
    assert result.info["settings"]["sketch"] == sketch_text(spec)
    wanted, variance = 0.0, []
    for key, eta in zip(("step-9", "step-10"), (0.5, 0.25), strict=True):
        point = next(k for k in (p.name for p in world.store.iterdir() if p.is_dir()) if k.startswith(key))
        ids = [list(store.rows(point, side)) for side in ("train", "query")]
        g, phi = (store.read(point, side, names) for side, names in zip(("train", "query"), ids, strict=True))
        wanted = wanted + eta * np.einsum("nd,qtd->nqt", g.values, phi.values)
        parts = [
            worst_case(sketch.sketches[b.name])
            * np.square(g.values[:, b.start : b.stop]).sum(-1)[:, None, None]
            * np.square(phi.values[..., b.start : b.stop]).sum(-1)
            for b in g.blocks
        ]
        variance.append(eta * np.sqrt(sum(parts)))
    assert_close(result.sdi.values, wanted)
    assert_close(result.stderr.values, sum(variance))


def test_a_store_is_opened_and_scored_without_running_the_users_code(world: World, mine: str) -> None:
    result = world.attribute(sketch={"*.bias": "exact", "*": mine}, store=world.store)
    path = Path(mine.rpartition(":")[0])
    del sys.modules["sdi_sketch_mine"]  # where it was run from
    before = set(sys.modules)
    path.unlink()
    store = Store(world.store)
    assert set(sys.modules) == before
    recorded = [s for s in store.sketch.sketches.values() if isinstance(s, RecordedSketch)]
    assert recorded
    for s in recorded:
        assert (s.size, s.variance_factor(), s.kind, s.nbytes, isinstance(s, Sketch)) == (
            32, 2.0, "Mine", prod(s.shape), True,
        )  # fmt: skip
    assert SketchMap.from_json(store.sketch.to_json()).to_json() == store.sketch.to_json()
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")
    streamed, known = sdi.stream_top(store, points, ["q-0"], k=3)[0], result.top(3, query="q-0")
    assert [row.train for row in streamed] == [row.train for row in known]
    assert_close(np.array([row.stderr for row in streamed]), np.array([row.stderr for row in known]))
    with pytest.raises(
        SketchMismatch, match=r"does not load its class 'mine.py:Mine'; draw it again with SketchMap.draw"
    ):
        recorded[0].apply(np.zeros(recorded[0].shape))
    path.write_text(MINE)
    again = world.attribute(sketch={"*.bias": "exact", "*": mine}, store=world.store)
    np.testing.assert_array_equal(again.sdi.values, result.sdi.values)


def test_a_run_does_not_go_on_with_another_class_of_the_same_name(world: World, mine: str) -> None:
    world.attribute(sketch=mine, store=world.store)
    path = Path(mine.rpartition(":")[0])
    path.write_text(MINE.replace("* self.signs", "* self.signs * 1.5"))
    with pytest.raises(StoreError, match=r"sketch\.sketches\..*\.code: '\w{12}' in the store, '\w{12}' now"):
        world.attribute(sketch=mine, store=world.store)
    with pytest.raises(StoreError, match=r"sketch.recipe.sketch: 'mine.py:Mine' in the store, None now"):
        world.attribute(store=world.store)


@pytest.mark.parametrize("spec", ["sparse", "kronecker", "exact"])
def test_choose_m_is_for_the_sketch_that_is_asked_for(world: World, spec: str) -> None:
    options = {"loss": sdi.fast.token_cross_entropy, "loop": world.loop, "batch": QUERY[0], "repeats": 2, "pilot_m": 8}
    chosen = sdi.choose_m(0.3, model=world.model, sketch=spec, **options)
    shapes = sdi.fast.body_shapes(world.model, world.loop)
    at, below = (
        SketchMap.draw(shapes, m, sketch=spec).sketches.values() for m in (chosen.bound, chosen.bound // 2 or 1)
    )
    assert max(map(worst_case, at)) <= 0.09
    assert spec == "exact" or max(map(worst_case, below)) > 0.09
    assert chosen.pilot is not None
    assert chosen.pilot <= chosen.bound
    with pytest.raises(ValueError, match=f"the bound of sketch='{spec}' depends on shapes: give model"):
        sdi.choose_m(0.3, sketch=spec)
    with pytest.raises(ValueError, match=r"'.*Bare' claims a factor of inf at m=256, where the largest parameter"):
        sdi.choose_m(0.3, model=world.model, sketch=Bare, **options)


CONFIG = 'script = "task.py"\ncheckpoints = ["*.safetensors"]\nbody = ["core"]\nstep = "core"\n'


def test_a_config_names_a_sketch_and_a_run_writes_it_back(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("")
    for text, wanted in (
        ("", "tensor"),
        ('sketch = "sparse-2"', "sparse-2"),
        ('sketch = "package.mine:Mine"', "package.mine:Mine"),
        ('sketch = "sub/mine.py:Mine"', f"{tmp_path.resolve()}/sub/mine.py:Mine"),
        (
            '[sketch]\n"*.bias" = "exact"\n"*" = "mine.py:Mine"',
            {"*.bias": "exact", "*": f"{tmp_path.resolve()}/mine.py:Mine"},
        ),
    ):
        (tmp_path / "run.toml").write_text(CONFIG + text)
        config = read_config(tmp_path / "run.toml")
        assert config.settings.sketch == wanted
        config.store.mkdir(parents=True, exist_ok=True)
        written = save_run(config, [Checkpoint(tmp_path / "x.safetensors", 0.1, "0" * 64)])
        text = written.read_text()
        assert read_config(written).settings.sketch == wanted
        assert str(tmp_path) not in text
        assert list(read_config(written).settings.sketch) == list(wanted)
    for bad in ("sketch = 3", 'sketch = ""', "[sketch]", '[sketch]\n"*" = 3'):
        (tmp_path / "run.toml").write_text(CONFIG + bad)
        with pytest.raises(
            ValueError, match="sketch must be a name, an import path, a class, or a mapping from patterns"
        ):
            read_config(tmp_path / "run.toml")
