"""What is no sketch, or too large a one, is refused by name, value and rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attribution_cases import World, world
from sketch_cases import EXACT, Bare

from sdi import LinearSketch, SketchMap, load_sketch
from sdi.errors import SketchMismatch
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep

__all__ = ["world"]


class Fixed:
    """Draws what it is told."""

    made: Any = None

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Any:
        return cls.made


class Half(LinearSketch):
    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Any: ...


class Inexact(Keep):
    """Gives more than m numbers, and claims no isometry."""

    def variance_factor(self) -> float:
        return 1.0


class Longer(Keep):
    """Claims an isometry to fewer numbers than there are, and more than m."""

    size = 100


class AlsoScalars(Keep):
    """Is asked for the smallest parameters, too."""

    keeps_small = False

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Keep:
        return Keep(shape)


class OnlySize:
    size = 3


def drawing(made: Any) -> Any:
    return type("Fixed", (Fixed,), {"made": made})


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("tenser", ValueError, r"sketch must be one of \('tensor', .*\), .* got 'tenser'; did you mean 'tensor'\?"),
        ("sparse-0", ValueError, r"got 'sparse-0'; did you mean 'sparse'\?"),
        (3, TypeError, "sketch must be a name, an import path or a class, got 3"),
        ("no_such_package.x:Y", ValueError, r"there is no module 'no_such_package' .* path/to/x\.py:Class"),
        ("sdi.sketch:Kep", ValueError, r"sdi.sketch has no class 'Kep'; did you mean 'Keep'\?"),
        ("nowhere/mine.py:Mine", ValueError, r"got .*/nowhere/mine\.py, which does not exist"),
        (dict, TypeError, r"sketch 'dict' has no classmethod draw\(shape, m, \*, seed, name\)"),
        (Half, TypeError, "sketch 'Half' lacks apply, shape, size, tables, variance_factor, which LinearSketch"),
        ({"v": "tensor"}, SketchMismatch, r"no pattern of sketch matches parameter 'w'; it has \['v'\]: end with '\*'"),
        (drawing(object()), TypeError, r"\(64, 64\) and m=16, lacks draw, shape, .*; derive it from sdi.LinearSketch"),
        (drawing(Bare((4, 4))), SketchMismatch, r"has shape \(4, 4\) and size 1; it must keep the shape and 1 to m"),
        (drawing(OnlySize()), TypeError, r"m=16, lacks draw, shape, tables, "),
        (drawing(Longer((64, 64))), SketchMismatch, r"has shape \(64, 64\) and size 100"),
        (drawing(Inexact((64, 64))), SketchMismatch, r"has shape \(64, 64\) and size 4096"),
        (CountSketch, ValueError, r"shape must be \(d,\) for CountSketch, got \(64, 64\); use TensorSketch"),
    ],
)  # fmt: skip
def test_what_is_no_sketch_is_refused(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SketchMap.draw({"w": (64, 64)}, 16, sketch=spec)


def test_an_isometry_may_give_as_many_numbers_as_there_are() -> None:
    assert SketchMap.draw({"w": (64, 64)}, 16, sketch=drawing(Keep((64, 64)))).size == 4096


@pytest.mark.parametrize(("shape", "drawn"), [((), (1,)), ((3,), (3,)), ((2, 3, 4), (2, 12))])
def test_a_class_is_asked_for_vectors_and_matrices_only(shape: tuple[int, ...], drawn: tuple[int, ...]) -> None:
    assert SketchMap.draw({"w": shape}, 64, sketch=AlsoScalars).sketches["w"].shape == drawn


@pytest.mark.parametrize("name", ["gaussian", "rademacher"])
def test_a_dense_projection_that_is_not_small_is_refused_with_its_bytes(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"'core\.w' .* m=2048 is a dense matrix of 9,663,676,416 bytes, over 1,073,741,824"
    ):
        SketchMap.draw({"core.w": (768, 768)}, 2048, sketch=name)
    with pytest.raises(ValueError, match=r"use m of at most 227 there, or another sketch for it"):
        SketchMap.draw({"core.w": (768, 768)}, 2048, sketch=name)


def test_a_sparse_projection_whose_tables_are_not_small_is_refused_with_their_bytes() -> None:
    with pytest.raises(
        ValueError, match=r"'sparse-4' of 'emb' .* needs tables of 1,852,674,048 bytes, over 1,073,741,824"
    ):
        SketchMap.draw({"emb": (50257, 768)}, 2048, sketch="sparse")


def test_other_refusals_name_argument_value_and_rule(world: World) -> None:
    with pytest.raises(
        ValueError, match="family must be 'table' where sketch is not 'tensor', got 'polynomial' and sketch='mask'"
    ):
        SketchMap.draw({"w": (9, 9)}, 4, family="polynomial", sketch="mask")
    SketchMap.draw({"w": (9, 9), "b": (9,)}, 4, family="polynomial", sketch={"b": "exact", "*": "tensor"})
    with pytest.raises(ValueError, match="m must be a width for sketch='mask', got None"):
        world.attribute(m=None, sketch="mask")
    with pytest.raises(
        TypeError, match=r"sketch must be a name, an import path, a class, or a mapping .* to these, got 7"
    ):
        world.attribute(sketch=7)
    for name in EXACT:
        cls: Any = load_sketch(name)
        with pytest.raises(ValueError, match=r"shape must be \(d,\) or \(d_out, d_in\) with sizes of at least 1"):
            cls.draw((2, 2, 2), 4)
        with pytest.raises(ValueError, match="m must be at least 1, got 0"):
            cls.draw((2, 2), 0)
        with pytest.raises(SketchMismatch, match=r"Sketch is for pairs of shapes \(..., T, 3\) and \(..., T, 2\), got"):
            cls.draw((3, 2), 2).apply_outer(np.zeros((4, 2)), np.zeros((4, 3)))
        with pytest.raises(ValueError, match="read-only"):
            next(iter(cls.draw((3, 2), 2).tables().values()))[0] = 0
