"""SketchMap: one sketch per parameter, drawn from (seed, name) alone, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import SketchMismatch
from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import SketchMap

exact = settings(deadline=None, derandomize=True, database=None, max_examples=40)

SHAPES = {
    "core.0.attn.q.weight": (16, 12),
    "core.0.norm.weight": (40,),
    "core.0.norm.bias": (4,),
    "core.0.conv.weight": (3, 2, 5, 5),
}

names = st.text("abw.01", min_size=1, max_size=5)
shapes_of_models = st.dictionaries(
    names, st.lists(st.integers(1, 7), max_size=4).map(tuple), min_size=1, max_size=5
)  # fmt: skip
settings_of_draw = st.one_of(
    st.tuples(st.integers(1, 20), st.just("table")), st.tuples(st.sampled_from((1, 2, 4, 8, 16)), st.just("polynomial"))
)


def arrays_for(shapes, lead=(), seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-99, 100, size=(*lead, *shape)) for name, shape in shapes.items()}


def handmade() -> SketchMap:
    return SketchMap(
        {"w": TensorSketch.draw((3, 4), 5, name="mine"), "v": CountSketch.draw((9,), 2, name="mine"), "b": Keep((2,))},
        {"w": (3, 4), "v": (9,), "b": (2,)},
    )


def test_the_stream_of_a_drawn_map_has_not_changed():
    """Golden values: features on disk were made with these tables. Change them only together with the version."""
    assert SketchMap.draw(SHAPES, m=32, seed=7).identity == "f62a249f16df"
    two = {name: SHAPES[name] for name in ("core.0.attn.q.weight", "core.0.norm.weight")}
    assert SketchMap.draw(two, m=32, seed=7, family="polynomial").identity == "a76bdec48f54"


@exact
@given(shapes_of_models, settings_of_draw, st.integers(0, 9), st.data())
def test_a_parameters_sketch_depends_on_seed_and_name_alone(shapes, chosen, seed, data):
    m, family = chosen
    whole = SketchMap.draw(shapes, m, seed, family)
    order = data.draw(st.permutations(sorted(shapes)))
    some = order[: data.draw(st.integers(1, len(order)))]
    part = SketchMap.draw({name: shapes[name] for name in some}, m, seed, family)
    assert list(part.sketches) == some
    for name in some:
        assert part.sketches[name] == whole.sketches[name]


def test_another_seed_or_another_name_gives_another_sketch():
    def of(name, seed):
        return SketchMap.draw({name: (9, 9)}, 16, seed).sketches[name]

    assert len({of("w", 0), of("w", 1), of("v", 0), of("v", 1)}) == 4


def test_the_sketches_of_two_parameters_of_one_shape_differ():
    drawn = SketchMap.draw({"q": (9, 9), "k": (9, 9)}, 16).sketches
    assert drawn["q"].rows != drawn["k"].rows
    assert drawn["q"].cols != drawn["k"].cols


@exact
@given(shapes_of_models, settings_of_draw)
def test_small_parameters_are_kept_vectors_counted_and_the_rest_sketched_as_matrices(shapes, chosen):
    m, family = chosen
    for name, sketch in SketchMap.draw(shapes, m, 0, family).sketches.items():
        shape = shapes[name]
        size = int(np.prod(shape))
        if size <= m:
            assert sketch == Keep(shape)
        elif len(shape) == 1:
            assert isinstance(sketch, CountSketch)
            assert (sketch.shape, sketch.size) == (shape, m)
        else:
            assert isinstance(sketch, TensorSketch)
            assert (sketch.shape, sketch.size) == ((shape[0], size // shape[0]), m)


@pytest.mark.parametrize(("size", "kept"), [(15, True), (16, True), (17, False)])
def test_a_parameter_is_kept_exactly_up_to_m_entries(size, kept):
    sketch = SketchMap.draw({"w": (size,)}, m=16)
    assert isinstance(sketch.sketches["w"], Keep) is kept
    x = np.arange(1, size + 1)
    assert np.array_equal(sketch.apply({"w": x}), x) is kept


@exact
@given(shapes_of_models, settings_of_draw)
def test_the_blocks_tile_the_width_in_order(shapes, chosen):
    m, family = chosen
    sketch = SketchMap.draw(shapes, m, 0, family)
    starts = [0, *(block.stop for block in sketch.blocks)]
    assert [block.start for block in sketch.blocks] == starts[:-1]
    assert starts[-1] == sketch.size
    assert [(block.name, block.shape) for block in sketch.blocks] == list(shapes.items())
    assert all(block.stop - block.start == min(m, np.prod(block.shape)) for block in sketch.blocks)


@exact
@given(shapes_of_models, settings_of_draw, st.lists(st.integers(0, 3), max_size=2).map(tuple))
def test_apply_is_each_parameters_own_sketch_side_by_side(shapes, chosen, lead):
    m, family = chosen
    sketch = SketchMap.draw(shapes, m, 0, family)
    arrays = arrays_for(shapes, lead)
    got = sketch.apply(dict(reversed(arrays.items())))
    assert got.shape == (*lead, sketch.size)
    for block in sketch.blocks:
        own = sketch.sketches[block.name]
        flat = arrays[block.name].reshape(*lead, int(np.prod(block.shape)))
        assert np.array_equal(got[..., block.start : block.stop], flat @ own.dense().T)


def test_a_convolution_is_sketched_as_the_matrix_of_its_first_axis_and_the_rest():
    assert matrix_shape((3, 2, 5, 5)) == (3, 50)
    sketch = SketchMap.draw({"conv": (3, 2, 5, 5)}, m=16)
    x = arrays_for({"conv": (3, 2, 5, 5)}, lead=(2,))["conv"]
    as_matrix = SketchMap.draw({"conv": (3, 50)}, m=16)
    assert sketch.sketches["conv"] == as_matrix.sketches["conv"]
    assert np.array_equal(sketch.apply({"conv": x}), as_matrix.apply({"conv": x.reshape(2, 3, 50)}))
    assert sketch != as_matrix


@pytest.mark.parametrize("family", ["table", "polynomial"])
def test_json_gives_a_drawn_map_back_from_its_recipe(family):
    sketch = SketchMap.draw(SHAPES, m=32, seed=7, family=family)
    text = sketch.to_json()
    back = SketchMap.from_json(text)
    assert "sketches" not in json.loads(text)
    assert back == sketch
    assert hash(back) == hash(sketch)
    assert back.recipe == sketch.recipe == {"m": 32, "seed": 7, "family": family}
    assert (back.label, back.blocks) == (sketch.label, sketch.blocks)
    assert back.to_json() == text


@pytest.mark.parametrize("sketch", [handmade(), SketchMap.keep(SHAPES)], ids=["handmade", "keep"])
def test_json_gives_a_map_made_by_hand_back_from_its_tables(sketch):
    back = SketchMap.from_json(sketch.to_json())
    assert back == sketch
    assert back.recipe is None
    assert back.blocks == sketch.blocks
    arrays = arrays_for(sketch.shapes)
    assert np.array_equal(back.apply(arrays), sketch.apply(arrays))


def test_numpy_integers_as_m_seed_and_sizes_change_nothing():
    plain = SketchMap.draw(SHAPES, m=32, seed=7, family="polynomial")
    numpy = SketchMap.draw(
        {name: tuple(map(np.int64, shape)) for name, shape in SHAPES.items()},
        m=np.int64(32), seed=np.int64(7), family="polynomial",
    )  # fmt: skip
    assert numpy == plain
    assert numpy.to_json() == plain.to_json()
    kept = SketchMap.keep({"w": (np.int64(3), np.int64(2))})
    assert kept == SketchMap.keep({"w": (3, 2)})
    assert SketchMap.from_json(kept.to_json()) == kept


def altered(sketch: SketchMap, change) -> str:
    spec = json.loads(sketch.to_json())
    change(spec)
    return json.dumps(spec)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(identity="000000000000"),
        lambda spec: spec["recipe"].update(seed=8),
        lambda spec: spec["recipe"].update(m=31),
        lambda spec: spec["recipe"].update(family="polynomial"),
        lambda spec: spec["shapes"].update({"core.0.norm.bias": [2, 2]}),
        lambda spec: spec["shapes"].pop("core.0.norm.bias"),
        lambda spec: spec.update(shapes=dict(reversed(spec["shapes"].items()))),
    ],
)
def test_an_altered_recipe_is_refused(change):
    sketch = SketchMap.draw(SHAPES, m=32, seed=7)
    with pytest.raises(SketchMismatch, match=r"read back has identity \w{12}, the file says \w{12}: it was altered"):
        SketchMap.from_json(altered(sketch, change))


def test_an_altered_table_is_refused():
    def flip(spec):
        spec["sketches"]["w"]["cols.s"][2] *= -1

    with pytest.raises(SketchMismatch, match="it was altered"):
        SketchMap.from_json(altered(handmade(), flip))


def test_a_map_of_another_version_is_refused():
    with pytest.raises(ValueError, match=r"version of a sketch must be 1, got 2; it was written by another sdi"):
        SketchMap.from_json(altered(handmade(), lambda spec: spec.update(version=2)))


def test_keep_is_the_identity():
    sketch = SketchMap.keep(SHAPES)
    arrays = arrays_for(SHAPES, lead=(2, 3))
    flat = np.concatenate([array.reshape(2, 3, -1) for array in arrays.values()], axis=-1)
    assert np.array_equal(sketch.apply(arrays), flat)
    assert sketch.size == sum(int(np.prod(shape)) for shape in SHAPES.values())


def test_a_parameter_without_axes_is_kept():
    for sketch in (SketchMap.draw({"scale": ()}, m=1), SketchMap.keep({"scale": ()})):
        assert sketch.apply({"scale": np.array([3, 4])}).tolist() == [[3], [4]]


def test_the_label_says_what_a_person_would_recognise():
    assert SketchMap.draw(SHAPES, 32, 7).label.endswith(" (m=32, seed=7, table)")
    assert SketchMap.keep(SHAPES).label.endswith(" (dense)")
    assert handmade().label.endswith(" (made by hand)")


def test_maps_of_one_parameter_under_two_names_or_in_two_orders_differ():
    assert SketchMap.keep({"a": (2,)}) != SketchMap.keep({"b": (2,)})
    assert SketchMap.keep({"a": (2,), "b": (2,)}) != SketchMap.keep({"b": (2,), "a": (2,)})
    assert SketchMap.keep({"a": (6,)}) != SketchMap.keep({"a": (2, 3)})
    assert SketchMap.keep({"a": (2,)}) != "not a map"


def test_a_later_change_of_the_callers_mappings_does_not_change_the_map():
    shapes, sketches = {"w": (2, 2)}, {"w": Keep((2, 2))}
    maps = [SketchMap(sketches, shapes), SketchMap.draw(shapes, 2)]
    before = [sketch.to_json() for sketch in maps]
    shapes["v"], sketches["v"] = (1,), Keep((1,))
    assert [sketch.to_json() for sketch in maps] == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SketchMap({}, {}), ValueError, "a SketchMap must have at least one parameter, got none"),
        (lambda: SketchMap.draw({}, 4), ValueError, "at least one parameter, got none"),
        (
            lambda: SketchMap({"w": Keep((2,))}, {"v": (2,)}),
            SketchMismatch,
            r"sketches and shapes must name the same parameters, got \['w'\] and \['v'\]",
        ),
        (
            lambda: SketchMap({"w": Keep((2,))}, {"w": (3,)}),
            SketchMismatch,
            r"the sketch of 'w' is for shape \(2,\), the parameter has \(3,\)",
        ),
        (
            lambda: SketchMap.draw({"w": (2, 0)}, 4),
            ValueError,
            r"parameter 'w' must have at least one entry, got shape \(2, 0\)",
        ),
        (lambda: SketchMap.draw({"w": (9, 9)}, 4, seed=1.5), TypeError, "seed must be an integer, got 1.5"),
        (lambda: SketchMap.draw({"w": (9, 9)}, 4, seed=True), TypeError, "seed must be an integer, got True"),
        (
            lambda: handmade().apply({"w": np.zeros((3, 4)), "x": np.zeros(2)}),
            SketchMismatch,
            r"the sketch is for parameters \['w', 'v', 'b'\]; these are on one side only: \['b', 'v', 'x'\]",
        ),
        (
            lambda: SketchMap.keep({"w": (3, 4)}).apply({"w": np.zeros((4, 3))}),
            SketchMismatch,
            r"parameter 'w' has shape \(3, 4\), got an array of shape \(4, 3\)",
        ),
        (
            lambda: SketchMap.keep({"w": (3, 4)}).apply({"w": np.zeros(4)}),
            SketchMismatch,
            r"parameter 'w' has shape \(3, 4\), got an array of shape \(4,\)",
        ),
        (
            lambda: handmade().check_shapes({"w": (3, 4), "v": (9,), "b": (2,), "more": (1,)}),
            SketchMismatch,
            r"sketch \w{12} \(made by hand\) has no parameter 'more'; draw it for the body's own shapes",
        ),
        (
            lambda: handmade().check_shapes({"w": (4, 3), "v": (9,), "b": (2,)}),
            SketchMismatch,
            r"has 'w' with shape \(3, 4\), the model has \(4, 3\)",
        ),
        (
            lambda: handmade().check_shapes({"w": (3, 4), "v": (9,)}),
            SketchMismatch,
            r"is for 'b', which is not in the body",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_right_shapes_are_not_refused():
    handmade().check_shapes({"b": (2,), "v": [9], "w": (3, 4)})


class Plain:
    """A sketch that only has what the protocol asks for, and no identity of its own."""

    shape, size, nbytes = (2, 3), 4, 0

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls("plain")

    def tables(self):
        return {"any": np.arange(3)}

    def apply(self, x):
        return np.zeros((*x.shape[:-2], 4))

    def apply_outer(self, u, v):
        return np.zeros((*u.shape[:-2], 4))

    def variance_factor(self):
        return 1.0


def test_sketches_without_an_identity_are_told_apart_by_what_they_hold():
    one, same, other = (SketchMap({"w": Plain(kind)}, {"w": (2, 3)}) for kind in ("a", "a", "b"))
    assert one == same
    assert one != other
    assert hash(one) == hash(same) != hash(other)
    assert len({one, same, other}) == 2
    assert one.blocks == (("w", (2, 3), 0, 4),)


def test_a_record_of_a_users_sketch_keeps_the_identity_it_was_written_with():
    drawn = SketchMap.draw({"w": (4, 3), "v": (9,), "b": (4,)}, 4, sketch={"w": PlainOfFour, "*": "tensor"})
    back = SketchMap.from_json(drawn.to_json())
    assert back == drawn
    assert back.identity == drawn.identity
    assert type(back.sketches["w"]).__name__ == "RecordedSketch"
    assert SketchMap.from_json(back.to_json()) == drawn


class PlainOfFour(Plain):
    shape = (4, 3)


def test_widths_of_their_own_come_back_also_where_some_or_all_sketches_are_a_users():
    shapes, widths = {"w": (4, 3), "v": (9,), "b": (4,)}, {"w": 4, "v": 5, "b": 4}
    for sketch in ({"w": PlainOfFour, "*": "tensor"}, {"w": "tensor", "b": PlainOfFour, "*": "tensor"}):
        drawn = SketchMap.draw(shapes, widths, sketch=sketch)
        assert isinstance(drawn.sketches["b"], Keep)
        back = SketchMap.from_json(drawn.to_json())
        assert back == drawn
        assert back.recipe["m"] == widths
    alone = SketchMap.draw({"w": (4, 3)}, {"w": 4}, sketch=PlainOfFour)
    assert SketchMap.from_json(alone.to_json()) == alone


def test_a_file_that_lacks_a_users_sketch_is_refused():
    drawn = SketchMap.draw({"w": (4, 3), "v": (9,)}, 4, sketch={"w": PlainOfFour, "*": "tensor"})
    with pytest.raises(
        SketchMismatch, match=r"the file says nothing of the sketch of 'w', of class '.*PlainOfFour': it"
    ):
        SketchMap.from_json(altered(drawn, lambda spec: spec.pop("sketches")))


def test_a_family_of_hashes_is_refused_where_the_sketch_has_none():
    wanted = r"^family must be 'table' where sketch is not 'tensor', got 'polynomial' and sketch='mask'$"
    with pytest.raises(ValueError, match=wanted):
        SketchMap.draw({"w": (9, 9)}, 4, family="polynomial", sketch="mask")
