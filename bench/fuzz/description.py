"""Description: a drawn model and its data, small enough to read, to save as JSON and to shrink."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Batches = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Description:
    """Everything that a model, its batches and the run follow from.

    d, tau: width and steps. k: streams, options and the like. train, query: (examples, tokens) of each batch.
    tokens: whether states are (n, L, d), or vectors (n, d). cells: pairs of a cell and the style it is called in.
    carry: the layout of the state from step to step. step: how a step is arranged. extras: whatever else is odd.
    mixing: how examples are mixed, or "". when: in which batches. checkpoints: how many. seed: of weights and data.
    """

    d: int = 2
    tau: int = 2
    k: int = 2
    train: Batches = ((2, 2),)
    query: Batches = ((1, 2),)
    tokens: bool = True
    cells: tuple[tuple[str, str], ...] = (("linear", "whole"),)
    carry: str = "as it is"
    step: str = "core"
    extras: tuple[str, ...] = ()
    loss: str = "square"
    mixing: str = ""
    when: str = "always"
    mode: str = "query"
    checkpoints: int = 1
    seed: int = 0

    @property
    def sound(self) -> bool:
        """Whether every example has a gradient of its own, whatever its batch."""
        return not self.mixing

    @property
    def features(self) -> tuple[str, ...]:
        """What there is to count, each as "kind: name"."""
        named = [("state", "tokens" if self.tokens else "vectors"), ("carry", self.carry), ("step", self.step)]
        named += [("cell", cell) for cell, _ in self.cells] + [("style", style) for _, style in self.cells]
        named += [("extra", extra) for extra in self.extras] + [("loss", self.loss), ("mode", self.mode)]
        if self.mixing:
            named += [("mixing", self.mixing), ("mixing when", self.when)]
        return tuple(dict.fromkeys(f"{kind}: {name}" for kind, name in named))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Description:
        """What `to_json` wrote.

        >>> one = Description(cells=(("gate", "flat"),), extras=("end",))
        >>> Description.from_json(one.to_json()) == one
        True
        """
        content: Mapping[str, Any] = json.loads(text)
        return cls(**{name: _tuples(value) for name, value in content.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
