"""Change: what a counterfactual training run does otherwise; and random groups of examples to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from sdi.arguments import at_least_one, number, whole
from sdi.errors import nearest_or_first


@dataclass(frozen=True)
class Change:
    """Other weights in training than 1, for some examples or for some of their loop steps.

    weights: by id, what an example's loss is multiplied with; 0 leaves it out.
    steps: by id, and by loop step from 1, what the part of its gradient that enters through this step is multiplied
    with; 0 trains without it.

    >>> Change.leave_out(["a", "b"]).weights
    {'a': 0.0, 'b': 0.0}
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    @classmethod
    def leave_out(cls, ids: Sequence[str], weight: float = 0.0) -> Change:
        """A run in which these examples have weight 0, or another one.

        ids: of the examples. weight: between 0 and 1, they are left out in part.
        """
        if isinstance(ids, str):
            raise ValueError(f"ids must be a list of ids, got {ids!r}; write [{ids!r}]")
        return cls({str(i): float(weight) for i in ids})

    @classmethod
    def without_step(cls, ids: Sequence[str], step: int) -> Change:
        """A run in which the gradients of these examples lack what enters through one loop step.

        ids: of the examples. step: of their loop, from 1.
        """
        at_least_one("step", whole("step", step))
        return cls(steps={str(i): {int(step): 0.0} for i in ids})

    def check(self, ids: Sequence[str]) -> None:
        """Refuse ids that training does not hold, and weights that are not finite. ids: those of training."""
        known = set(ids)
        for name, table in (("weights", self.weights), ("steps", self.steps)):
            for i in table:
                if i not in known:
                    raise ValueError(
                        f"{name} of a change name example {i!r}, not in training{nearest_or_first(i, ids)}"
                    )
        values = [*self.weights.values(), *(v for steps in self.steps.values() for v in steps.values())]
        for value in values:
            number("weights and steps of a change", value, "finite numbers", lambda x: bool(np.isfinite(x)))
        for steps in self.steps.values():
            for t in steps:
                at_least_one("the step of a change", whole("the step of a change", t))

    def vector(self, ids: Sequence[str]) -> Float[np.ndarray, "n"]:
        """The weight of every training example. ids: those of training."""
        return np.array([self.weights.get(i, 1.0) for i in ids])

    def key(self) -> str:
        """The change as text, the same for equal changes: what is 1 does not count."""
        weights = sorted((i, float(w)) for i, w in self.weights.items() if w != 1)
        steps = sorted((i, int(t), float(v)) for i, of in self.steps.items() for t, v in of.items() if v != 1)
        return repr((weights, steps))


def random_groups(ids: Sequence[str], groups: int, share: float, seed: int = 0) -> list[tuple[str, ...]]:
    """Random groups of training examples, each without repeats, for leaving out.

    ids: of training. groups: how many. share: of the examples in each, at least one example. seed: of the choice.
    Returns one tuple of ids for each group.

    >>> [len(g) for g in random_groups([str(i) for i in range(40)], 3, 0.05)]
    [2, 2, 2]
    """
    at_least_one("groups", whole("groups", groups))
    number("share", share, "a number above 0 and at most 0.5", lambda x: 0 < x <= 0.5)
    rng = np.random.default_rng([seed, 20])
    size = max(1, round(share * len(ids)))
    return [tuple(ids[i] for i in np.sort(rng.choice(len(ids), size, replace=False))) for _ in range(groups)]
