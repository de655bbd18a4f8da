"""SketchMap: one independent sketch per body parameter, their results side by side.

Matrices get a TensorSketch, vectors a CountSketch, and a parameter with at most m entries is kept as it is.
Parameters with more than two axes (convolutions) are sketched as matrices (first axis, the rest).
Each sketch is drawn from (seed, parameter name) alone, so neither order, nor device, nor backend matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from sdi.errors import SketchMismatch, nearest
from sdi.hashing import check_family
from sdi.sketches import CountSketch, Keep, Sketch, TensorSketch, check_m, sketch_from_json

Array = np.ndarray
Shape = tuple[int, ...]


class Block(NamedTuple):
    """Where one parameter's part of a feature stands: columns start to stop - 1."""

    name: str
    shape: Shape
    start: int
    stop: int


def matrix_shape(shape: Shape) -> tuple[int, int]:
    """The matrix a parameter with at least two axes is sketched as."""
    return shape[0], prod(shape[1:])


@dataclass(frozen=True, eq=False)
class SketchMap:
    """The sketch of every parameter, in order. Make one with `draw`, `keep`, or from sketches of your own.

    >>> SketchMap.draw({"w": (64, 64), "b": (64,)}, m=128, seed=0).blocks
    (Block(name='w', shape=(64, 64), start=0, stop=128), Block(name='b', shape=(64,), start=128, stop=192))
    """

    sketches: Mapping[str, Sketch]
    shapes: Mapping[str, Shape]
    recipe: Mapping[str, Any] | None = None  # m, seed, family: what `draw` was given

    def __post_init__(self) -> None:
        if not self.sketches:
            raise ValueError("a SketchMap must have at least one parameter, got none")
        shapes = {name: tuple(int(k) for k in shape) for name, shape in self.shapes.items()}
        if list(shapes) != list(self.sketches):
            raise SketchMismatch(
                f"sketches and shapes must name the same parameters, got {list(self.sketches)} and {list(shapes)}"
            )
        for name, sketch in self.sketches.items():
            if prod(sketch.shape) != prod(shapes[name]):
                raise SketchMismatch(
                    f"the sketch of {name!r} is for shape {sketch.shape}, the parameter has {shapes[name]}"
                )
        object.__setattr__(self, "shapes", shapes)
        object.__setattr__(self, "sketches", dict(self.sketches))

    @classmethod
    def draw(cls, shapes: Mapping[str, Shape], m: int, seed: int = 0, family: str = "table") -> SketchMap:
        """Sketches for parameters of these shapes."""
        check_m(m)
        check_family(family, m)
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an integer, got {seed!r}")
        sketches: dict[str, Sketch] = {}
        for name, shape in shapes.items():
            shape = tuple(int(k) for k in shape)
            if prod(shape) < 1:
                raise ValueError(f"parameter {name!r} must have at least one entry, got shape {shape}")
            if prod(shape) <= m:
                sketches[name] = Keep(shape)
            elif len(shape) == 1:
                sketches[name] = CountSketch.draw(shape[0], m, seed, name, family=family)
            else:
                sketches[name] = TensorSketch.draw(matrix_shape(shape), m, seed, name, family=family)
        recipe = {"m": int(m), "seed": int(seed), "family": family}
        return cls(sketches=sketches, shapes=shapes, recipe=recipe)

    @classmethod
    def keep(cls, shapes: Mapping[str, Shape]) -> SketchMap:
        """No sketch at all: every parameter kept, flattened. What `featurize` uses when none is given."""
        return cls(sketches={name: Keep(tuple(shape)) for name, shape in shapes.items()}, shapes=shapes)

    @property
    def blocks(self) -> tuple[Block, ...]:
        out, start = [], 0
        for name, sketch in self.sketches.items():
            out.append(Block(name, self.shapes[name], start, start + sketch.size))
            start += sketch.size
        return tuple(out)

    @property
    def size(self) -> int:
        """Numbers per example and step."""
        return sum(sketch.size for sketch in self.sketches.values())

    @property
    def identity(self) -> str:
        """A short digest of every table: equal exactly when the maps are equal."""
        parts = [f"{name}:{self.shapes[name]}:{sketch.identity}" for name, sketch in self.sketches.items()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The identity with what a person would recognise it by."""
        if all(isinstance(sketch, Keep) for sketch in self.sketches.values()):
            return f"{self.identity} (dense)"
        if self.recipe is None:
            return f"{self.identity} (made by hand)"
        return f"{self.identity} (m={self.recipe['m']}, seed={self.recipe['seed']}, {self.recipe['family']})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SketchMap) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def apply(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Shaped[Array, "... D"]:
        """The sketch of one array per parameter, shape (..., *parameter shape), by definition."""
        if set(arrays) != set(self.sketches):
            odd = sorted(set(arrays) ^ set(self.sketches))
            raise SketchMismatch(
                f"the sketch is for parameters {list(self.sketches)}; these are on one side only: {odd}"
            )
        parts = []
        for name, sketch in self.sketches.items():
            x, shape = np.asarray(arrays[name]), self.shapes[name]
            lead = x.shape[: x.ndim - len(shape)]
            if x.shape != lead + shape:
                raise SketchMismatch(f"parameter {name!r} has shape {shape}, got an array of shape {x.shape}")
            parts.append(sketch.apply(x.reshape(lead + sketch.shape)))
        return np.concatenate(parts, axis=-1)

    def check_shapes(self, shapes: Mapping[str, Shape]) -> None:
        """Refuse to be used for parameters other than those it was made for."""
        for name, shape in shapes.items():
            if name not in self.shapes:
                raise SketchMismatch(
                    f"sketch {self.label} has no parameter {name!r}; draw it for the body's own shapes"
                )
            if self.shapes[name] != tuple(shape):
                raise SketchMismatch(
                    f"sketch {self.label} has {name!r} with shape {self.shapes[name]}, the model has {tuple(shape)}"
                )
        for name in self.shapes:
            if name not in shapes:
                raise SketchMismatch(
                    f"sketch {self.label} is for {name!r}, which is not in the body{nearest(name, shapes)}"
                )

    def to_json(self) -> str:
        """The recipe (or, for sketches made by hand, the tables) and the identity it must give again."""
        spec: dict[str, Any] = {
            "version": 1,
            "identity": self.identity,
            "shapes": {k: list(v) for k, v in self.shapes.items()},
        }
        if self.recipe is not None:
            spec["recipe"] = dict(self.recipe)
        else:
            spec["sketches"] = {name: sketch.to_json() for name, sketch in self.sketches.items()}
        return json.dumps(spec)

    @classmethod
    def from_json(cls, text: str) -> SketchMap:
        """The map that `to_json` wrote; refused if it does not come out with the identity written there.

        >>> s = SketchMap.draw({"w": (9, 9)}, m=16, seed=3)
        >>> SketchMap.from_json(s.to_json()) == s
        True
        """
        spec = json.loads(text)
        if spec.get("version") != 1:
            raise ValueError(
                f"version of a sketch must be 1, got {spec.get('version')!r}; it was written by another sdi"
            )
        shapes = {name: tuple(shape) for name, shape in spec["shapes"].items()}
        if "recipe" in spec:
            made = cls.draw(shapes, **spec["recipe"])
        else:
            made = cls({name: sketch_from_json(s) for name, s in spec["sketches"].items()}, shapes)
        if made.identity != spec["identity"]:
            raise SketchMismatch(
                f"the sketch read back has identity {made.identity}, the file says {spec['identity']}: it was altered"
            )
        return made
