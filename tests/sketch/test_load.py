"""Sketches by name, path and class, in mixed maps, in JSON, with an identity."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sketch_cases import MINE, NAMES, Bare, WithTwin, mine

from sdi import SketchMap, load_sketch
from sdi.errors import SketchMismatch
from sdi.sketch.as_json import sketch_from_json, sketch_to_json
from sdi.sketch.load import sketch_text
from sdi.sketch.shipped.count_and_tensor import Keep, TensorSketch

__all__ = ["mine"]


def test_a_sketch_is_found_by_name_path_file_and_class(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_sketch("tensor") is TensorSketch
    assert load_sketch("sdi.sketch:Keep") is load_sketch("exact") is Keep
    assert load_sketch(WithTwin) is WithTwin
    found = load_sketch(mine)
    assert load_sketch(mine) is found
    assert (sketch_text(mine), sketch_text(found), sketch_text({"*": found})) == (
        "mine.py:Mine", "mine.py:Mine", {"*": "mine.py:Mine"},
    )  # fmt: skip
    assert sketch_text(TensorSketch) == "tensor"
    assert (sketch_text(load_sketch("sparse-7")), sketch_text(load_sketch("sparse"))) == ("sparse-7", "sparse")
    assert sketch_text(WithTwin) == f"{WithTwin.__module__}:WithTwin"
    monkeypatch.syspath_prepend(Path(mine.rpartition(":")[0]).parent)
    assert load_sketch("mine:Mine").__name__ == "Mine"
    maps = [SketchMap.draw({"w": (6, 6)}, 5, sketch=spec) for spec in (mine, found, "mine:Mine")]
    assert maps[0] == maps[1] == maps[2]
    del sys.modules["mine"]


def test_a_changed_file_is_run_again_and_may_import_its_neighbours(mine: str) -> None:
    first = load_sketch(mine)
    path = Path(mine.rpartition(":")[0])
    before = list(sys.path)
    (path.parent / "neighbour.py").write_text("factor = 3.0")
    path.write_text("from neighbour import factor" + MINE.replace("return 2.0", "return factor"))
    assert load_sketch(mine) is not first
    assert sys.path == before
    del sys.modules["neighbour"]
    assert SketchMap.draw({"w": (6, 6)}, 5, sketch=mine).sketches["w"].variance_factor() == 3.0


def test_in_a_mixed_map_the_first_pattern_that_matches_counts() -> None:
    shapes = {"core.0.q.weight": (9, 9), "core.0.q.bias": (20,), "core.0.k.weight": (9, 9), "small": (2,)}
    sketch = SketchMap.draw(shapes, 8, sketch={"*.bias": "exact", "*.q.*": "mask", "*": "tensor"})
    kinds = {name: s.kind for name, s in sketch.sketches.items()}  # type: ignore[attr-defined]
    assert list(kinds.values()) == ["mask", "keep", "tensor", "keep"]
    assert sketch.sketches["core.0.k.weight"] == SketchMap.draw(shapes, 8).sketches["core.0.k.weight"]
    assert sketch.label.endswith("(m=8, seed=0, mixed)")
    assert SketchMap.from_json(sketch.to_json()) == sketch
    widths = {"core.0.q.weight": 8, "core.0.q.bias": 4, "core.0.k.weight": 16, "small": 1}
    each = SketchMap.draw(shapes, widths, sketch={"*.bias": "hadamard", "*": "mask"})
    assert [s.size for s in each.sketches.values()] == [8, 4, 16, 1]
    assert SketchMap.from_json(each.to_json()) == each


def test_parameters_of_a_class_that_does_not_keep_small_ones_are_sketched() -> None:
    sketch = SketchMap.draw({"w": (2, 2), "scale": ()}, 9, sketch=Bare)
    assert [type(s) for s in sketch.sketches.values()] == [Bare, Bare]
    assert sketch.apply({"w": np.arange(4.0).reshape(2, 2), "scale": np.array(7.0)}).tolist() == [3.0, 7.0]


@pytest.mark.parametrize("name", NAMES)
def test_json_gives_a_sketch_back_drawn_or_made_by_hand(name: str) -> None:
    shapes = {"w": (6, 5), "b": (9,)}
    drawn = SketchMap.draw(shapes, 4, 2, sketch=name)
    assert name == "tensor" or json.loads(drawn.to_json())["recipe"]["sketch"] == name
    by_hand = SketchMap(drawn.sketches, shapes)
    for sketch in (drawn, by_hand):
        back = SketchMap.from_json(json.dumps(json.loads(sketch.to_json())))
        assert back == sketch
        x = {k: np.ones(shape) for k, shape in shapes.items()}
        np.testing.assert_array_equal(back.apply(x), sketch.apply(x))
    for sketch in drawn.sketches.values():
        assert type(sketch_from_json(sketch_to_json(sketch))) is type(sketch)


def test_the_identity_sees_kind_shape_and_every_table(mine: str) -> None:
    shapes = {"w": (6, 6)}
    seen = [SketchMap.draw(shapes, 4, seed, sketch=spec).identity for spec in (*NAMES, mine) for seed in (0, 1)]
    assert len(set(seen)) == 2 * len(NAMES) + 1  # "exact" has no randomness
    table = np.arange(6.0).reshape(1, 6)
    flat = [load_sketch("gaussian")(t, s) for t, s in ((table, (6,)), (table, (2, 3)), (table + 1e-12, (6,)))]
    assert len({s.identity for s in flat}) == 3


def test_a_file_that_was_altered_is_refused(mine: str) -> None:
    sketch = SketchMap.draw({"w": (6, 6), "v": (6, 6)}, 4, sketch={"w": mine, "*": "mask"})
    spec = json.loads(sketch.to_json())
    assert SketchMap.from_json(json.dumps(spec)) == sketch
    del spec["sketches"]["w"]
    with pytest.raises(SketchMismatch, match=r"the file says nothing of the sketch of 'w', of class 'mine\.py:Mine'"):
        SketchMap.from_json(json.dumps(spec))
