"""SketchMap: one independent sketch per body parameter, their results side by side.

By default, matrices get a TensorSketch and vectors a CountSketch; `sketch` names another class, or one for each pattern
of names. A parameter with at most m entries is kept as it is, unless the class says `keeps_small = False`.
Parameters with more than two axes (convolutions) are sketched as matrices (first axis, the rest).
Each sketch is drawn from (seed, parameter name) alone, so neither order, nor device, nor backend matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from sdi.errors import SketchMismatch, nearest
from sdi.inputs.settings import SketchSpec
from sdi.sketch.as_json import sketch_from_json, sketch_to_json
from sdi.sketch.draw_one import draw_one
from sdi.sketch.hashing import check_family
from sdi.sketch.load import is_shipped, sketch_for, sketch_text
from sdi.sketch.protocol import Shape, Sketch, check_m, identity_of
from sdi.sketch.shipped.count_and_tensor import Keep

Array = np.ndarray


class Block(NamedTuple):
    """The columns of a feature that belong to one parameter: start to stop - 1."""

    name: str  # of the parameter
    shape: Shape  # of the parameter
    start: int
    stop: int


def _width_of_each(shapes: Mapping[str, Shape], m: int | Mapping[str, int]) -> dict[str, int]:
    if not isinstance(m, Mapping):
        check_m(m)
        return dict.fromkeys(shapes, m)
    if set(m) != set(shapes):
        odd = sorted(set(m) ^ set(shapes))
        raise SketchMismatch(f"m must give a width for each of {list(shapes)}; these are on one side only: {odd}")
    return {name: m[name] for name in shapes}


@dataclass(frozen=True, eq=False)
class SketchMap:
    """One sketch per body parameter. Make one with `draw`, `keep`, or from sketches of your own.

    shapes: the shape of each parameter, by name. sketches: the sketch of each.
    recipe: the arguments of `draw`, if it was drawn.

    >>> SketchMap.draw({"w": (64, 64), "b": (64,)}, m=128, seed=0).blocks
    (Block(name='w', shape=(64, 64), start=0, stop=128), Block(name='b', shape=(64,), start=128, stop=192))
    """

    sketches: Mapping[str, Sketch]
    shapes: Mapping[str, Shape]
    recipe: Mapping[str, Any] | None = None  # m, seed, family, sketch: what `draw` was given

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
    def draw(
        cls,
        shapes: Mapping[str, Shape],
        m: int | Mapping[str, int],
        seed: int = 0,
        family: str = "table",
        sketch: SketchSpec = "tensor",
    ) -> SketchMap:
        """Draw a sketch for each parameter, from the seed and the parameter's name alone.

        shapes: the shape of each parameter, by name.
        m: one width for all, or one for each (see `sdi.spread`).
        seed: the seed of all sketches.
        family: of the default sketch's hashes, "table" or "polynomial".
        sketch: a shipped name, "package.module:Class", "path/to/file.py:Class", a class, or a mapping from patterns of
        parameter names ("*.bias") to any of these, of which the first that matches counts.
        """
        widths = _width_of_each(shapes, m)
        for width in widths.values():
            check_m(width)
            check_family(family, width)
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an integer, got {seed!r}")
        sketches = {
            name: draw_one(sketch_for(sketch, name), name, tuple(map(int, shape)), widths[name], int(seed), family)
            for name, shape in shapes.items()
        }
        of_each = {name: int(width) for name, width in widths.items()}
        recipe = {"m": of_each if isinstance(m, Mapping) else int(m), "seed": int(seed), "family": family}
        text = sketch_text(sketch)
        return cls(sketches, shapes, recipe if text == "tensor" else {**recipe, "sketch": text})

    @classmethod
    def keep(cls, shapes: Mapping[str, Shape]) -> SketchMap:
        """A map that keeps every parameter whole, flattened: the default of `featurize`. shapes: by parameter name."""
        return cls(sketches={name: Keep(tuple(shape)) for name, shape in shapes.items()}, shapes=shapes)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The columns of each parameter in a feature."""
        out, start = [], 0
        for name, sketch in self.sketches.items():
            out.append(Block(name, self.shapes[name], start, start + sketch.size))
            start += sketch.size
        return tuple(out)

    @property
    def size(self) -> int:
        """Numbers per example and step."""
        return sum(sketch.size for sketch in self.sketches.values())

    @cached_property
    def identity(self) -> str:
        """A short digest of every table: equal exactly when the maps are equal."""
        each = {name: getattr(s, "identity", None) or identity_of(s) for name, s in self.sketches.items()}
        parts = [f"{name}:{self.shapes[name]}:{identity}" for name, identity in each.items()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The identity with what a person would recognise it by."""
        if all(isinstance(sketch, Keep) for sketch in self.sketches.values()):
            return f"{self.identity} (dense)"
        if self.recipe is None:
            return f"{self.identity} (made by hand)"
        m = self.recipe["m"]
        width = f"m={min(m.values())}..{max(m.values())}" if isinstance(m, Mapping) else f"m={m}"
        text = self.recipe.get("sketch", self.recipe["family"])
        return f"{self.identity} ({width}, seed={self.recipe['seed']}, {text if isinstance(text, str) else 'mixed'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SketchMap) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def apply(self, arrays: Mapping[str, Shaped[Array, "..."]]) -> Shaped[Array, "... D"]:
        """The sketches of one array per parameter, side by side, by definition.

        arrays: by parameter name, of shape (..., *parameter shape), with the same leading axes.
        """
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
            parts.append(np.asarray(sketch.apply(x.reshape(lead + tuple(sketch.shape)))))
            if parts[-1].shape != (*lead, sketch.size):
                raise SketchMismatch(
                    f"apply of the sketch of {name!r} must give shape {(*lead, sketch.size)}, got {parts[-1].shape}"
                )
        return np.concatenate(parts, axis=-1)

    def check_shapes(self, shapes: Mapping[str, Shape]) -> None:
        """SketchMismatch if `shapes`, by parameter name, are not those that the map was made for."""
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
        """The recipe (or, for sketches made by hand, the tables) and the identity it must give again.

        Of a sketch whose class is not the library's, there is a record: reading it back runs no code of a user.
        """
        spec: dict[str, Any] = {
            "version": 1,
            "identity": self.identity,
            "shapes": {k: list(v) for k, v in self.shapes.items()},
        }
        if self.recipe is not None:
            spec["recipe"] = dict(self.recipe)
        kept = {name: s for name, s in self.sketches.items() if not self._drawn_by_us(name)}
        if kept:
            spec["sketches"] = {name: sketch_to_json(sketch) for name, sketch in kept.items()}
        return json.dumps(spec)

    def _drawn_by_us(self, name: str) -> bool:
        """Whether the recipe is enough to have a parameter's sketch again, without code of a user."""
        if self.recipe is None:
            return False
        small = isinstance(self.sketches[name], Keep)
        return small or is_shipped(sketch_for(self.recipe.get("sketch", "tensor"), name))

    @classmethod
    def from_json(cls, text: str) -> SketchMap:
        """The map whose `to_json` is `text`; refused if its identity is not the one written there.

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
        read = {name: sketch_from_json(s) for name, s in spec.get("sketches", {}).items()}
        made = _drawn_again(shapes, spec["recipe"], read) if "recipe" in spec else cls(read, shapes)
        if made.identity != spec["identity"]:
            raise SketchMismatch(
                f"the sketch read back has identity {made.identity}, the file says {spec['identity']}: it was altered"
            )
        return made


def _drawn_again(shapes: Mapping[str, Shape], recipe: Mapping[str, Any], read: Mapping[str, Sketch]) -> SketchMap:
    """The map drawn again from a recipe. Sketches of a user's classes are taken from `read`; no user's code is run."""
    rule = recipe.get("sketch", "tensor")
    drawn = {name: shape for name, shape in shapes.items() if name not in read}
    for name in drawn:
        text = sketch_for(rule, name)
        # A parameter of a user's class that is not among those read was small enough to be kept.
        if not is_shipped(text) and prod(shapes[name]) > _width_of_each(shapes, recipe["m"])[name]:
            raise SketchMismatch(f"the file says nothing of the sketch of {name!r}, of class {text!r}: it was altered")
    own = {pattern: text if is_shipped(text) else "exact" for pattern, text in _rules(rule).items()}
    widths = recipe["m"] if not isinstance(recipe["m"], Mapping) else {name: recipe["m"][name] for name in drawn}
    made = SketchMap.draw(drawn, widths, recipe["seed"], recipe["family"], own).sketches if drawn else {}
    return SketchMap({name: read.get(name) or made[name] for name in shapes}, shapes, recipe)


def _rules(rule: Any) -> dict[str, Any]:
    return dict(rule) if isinstance(rule, Mapping) else {"*": rule}
