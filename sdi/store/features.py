"""Features: what `featurize` returns and scores multiply.

    values   (n, tau, D) step gradients phi, or (n, D) already summed over steps
    outside  (n, D) the part that enters through body calls outside the loop, or None if there was none
    tau      (n,) steps each example really took; rows of `values` beyond are padding, exactly zero

`g = values.sum(step) + outside` is the whole gradient of the body; values already summed over steps hold both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sdi.errors import CoverageError, NonFiniteError, SketchMismatch, nearest
from sdi.inputs.batches import id_text
from sdi.printable import html_table
from sdi.sketch.sketch_map import Block

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Features:
    """Step gradients phi, or whole gradients g, of n examples, with the sketch and parameters they belong to.

    Features of different sketches or parameters refuse to be multiplied.
    """

    values: Float[Array, "n tau D"] | Float[Array, "n D"]  # phi, or g: summed over steps
    tau: Int[Array, "n"]  # steps that each example took
    blocks: tuple[Block, ...]  # the columns of each parameter
    sketch: str  # SketchMap.label
    outside: Float[Array, "n D"] | None = None  # the part of g from outside the loop; None if there is none
    ids: tuple[str, ...] = ()  # of the examples; by default "0", "1", ...
    fingerprints: dict[str, str] = field(default_factory=dict)  # of the model and the data
    losses: Float[Array, "n"] | None = None  # of the examples; None where they are not known

    def __post_init__(self) -> None:
        n = len(self.values)
        if self.values.ndim not in (2, 3):
            raise ValueError(f"values must have axes (n, tau, D) or (n, D), got shape {self.values.shape}")
        width = self.blocks[-1].stop if self.blocks else 0
        if self.values.shape[-1] != width:
            raise ValueError(
                f"values must have {width} columns, the end of the last block, got {self.values.shape[-1]}"
            )
        if self.outside is not None and self.outside.shape != (n, width):
            raise ValueError(f"outside must have shape {(n, width)}, got {self.outside.shape}")
        if self.losses is not None and self.losses.shape != (n,):
            raise ValueError(f"losses must have shape {(n,)}, got {self.losses.shape}")
        tau = np.asarray(self.tau)
        if n and tau.dtype.kind not in "iu":
            raise TypeError(f"tau must hold integers, got {tau.dtype}")
        tau = tau.astype(np.int64)
        if tau.shape != (n,) or (n and tau.min() < 1):
            raise ValueError(f"tau must hold one number of steps of at least 1 for each of the {n} examples, got {tau}")
        if self.values.ndim == 3 and n and tau.max() > self.values.shape[1]:
            raise ValueError(f"tau must be at most the number of steps {self.values.shape[1]}, got {tau.max()}")
        given: Any = self.ids  # a set would give them in any order, which types do not stop
        if isinstance(given, (str, Set)):
            raise ValueError(f"ids must be a list, in the order of the examples, got {given!r}")
        ids = tuple(map(id_text, given)) or _numbered(n)
        if len(ids) != n:
            raise ValueError(f"ids must name each of the {n} examples, got {len(ids)}")
        if len(set(ids)) < n:
            twice = next(i for i, times in Counter(ids).items() if times > 1)
            raise ValueError(f"ids must name each example once, got {twice!r} twice")
        object.__setattr__(self, "tau", tau)
        object.__setattr__(self, "ids", ids)
        self._refuse_non_finite()
        if self.values.ndim == 3:
            padding = np.arange(self.values.shape[1]) >= tau[:, None]  # (n, tau)
            if padding.any() and self.values[padding].any():
                at = np.argwhere(padding & self.values.any(axis=-1))[0]
                raise ValueError(
                    f"values beyond an example's tau must be zero: example {ids[at[0]]!r} took {tau[at[0]]} steps, "
                    f"got a gradient at step {at[1] + 1}"
                )

    def _repr_html_(self) -> str:
        """A table of parameters: their sketched widths, and the mean length of their part of a gradient."""
        g = self.g.astype(np.float64)
        rows = [
            (
                b.name,
                b.shape,
                b.stop - b.start,
                f"{np.linalg.norm(g[:, b.start : b.stop], axis=1).mean():.4g}" if len(g) else "",
            )
            for b in self.blocks
        ]
        steps = f"{self.values.shape[1]} steps" if self.has_steps else "summed over steps"
        words = f"Features of {len(self.values)} examples, {steps}, sketch {self.sketch}"
        return html_table(words, ("parameter", "shape", "numbers kept", "mean |gradient|"), rows)

    @property
    def has_steps(self) -> bool:
        """Whether `values` are step gradients (n, tau, D), and not summed over steps (n, D)."""
        return self.values.ndim == 3

    @property
    def phi(self) -> Float[Array, "n tau D"]:
        """Step gradients."""
        if not self.has_steps:
            raise ValueError(
                "these features were summed over steps (steps=False), so phi is gone; featurize with steps=True"
            )
        return self.values

    @property
    def g(self) -> Float[Array, "n D"]:
        """The whole gradient: steps and outside."""
        g = self.values.sum(axis=1) if self.has_steps else self.values
        return g if self.outside is None or not self.has_steps else g + self.outside

    def block(self, name: str) -> slice:
        """The columns of `values` that belong to one parameter. name: the parameter's."""
        for b in self.blocks:
            if b.name == name:
                return slice(b.start, b.stop)
        raise CoverageError(f"no parameter {name!r} in these features{nearest(name, [b.name for b in self.blocks])}")

    @classmethod
    def concatenate(cls, parts: Sequence[Features]) -> Features:
        """One Features with the examples of all `parts`, in order; fewer steps are padded with zeros.

        If no part's examples had ids of their own, the whole's are numbered from 0.
        """
        if not parts:
            raise ValueError("parts must hold at least one Features, got none")
        first = parts[0]
        for k, part in enumerate(parts[1:], start=2):
            first.check_matches(part, ("the first", f"part {k}'s"))
            if part.has_steps != first.has_steps:
                raise ValueError(
                    f"the first part and part {k} must both be step-resolved, or both be summed over steps"
                )
        if len(parts) == 1:
            return first
        values = [part.values for part in parts]
        if first.has_steps:
            steps = max(v.shape[1] for v in values)
            values = [np.pad(v, ((0, 0), (0, steps - v.shape[1]), (0, 0))) for v in values]
        ids = tuple(i for part in parts for i in part.ids)
        losses = [part.losses for part in parts if part.losses is not None]
        outside = None
        if any(part.outside is not None for part in parts):
            outside = np.concatenate([np.zeros_like(p.g) if p.outside is None else p.outside for p in parts])
        return cls(
            values=np.concatenate(values),
            tau=np.concatenate([part.tau for part in parts]),
            blocks=first.blocks,
            sketch=first.sketch,
            outside=outside,
            ids=() if all(part.ids == _numbered(len(part.ids)) for part in parts) else ids,
            fingerprints=first.fingerprints,
            losses=None if len(losses) < len(parts) else np.concatenate(losses),
        )

    def check_matches(self, other: Features, names: Sequence[str] = ("train", "query")) -> None:
        """SketchMismatch if `other` has another sketch or other parameters. names: what to call the two in messages."""
        if self.sketch != other.sketch:
            raise SketchMismatch(
                f"{names[0]} features use sketch {self.sketch}, {names[1]} features {other.sketch}; "
                "featurize both with one sketch"
            )
        if self.blocks != other.blocks:
            raise SketchMismatch(
                f"{names[0]} and {names[1]} features are of different parameters; featurize both with one Loop"
            )

    def _refuse_non_finite(self) -> None:
        for what, array in (("values", self.values), ("outside", self.outside)):
            if array is None or np.isfinite(array).all():
                continue
            at = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
            name = next(b.name for b in self.blocks if b.start <= at[-1] < b.stop)
            where = (
                f"step {at[1] + 1}"
                if array.ndim == 3
                else ("outside the loop" if what == "outside" else "the sum over steps")
            )
            raise NonFiniteError(
                f"the gradient of {name!r} at {where} of example {self.ids[at[0]]!r} is {array[at]}; "
                "check the loss and the model's weights for this example"
            )


def _numbered(n: int) -> tuple[str, ...]:
    """What examples without ids are called."""
    return tuple(map(str, range(n)))
