"""Placed: a model whose trained parameters are one vector, and may be another one in every loop step.

Slot 0 is outside of all steps, slot t is loop step t. Parameters that are not in the body are always those of slot 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdi.errors import CoverageError
from sdi.loop import Loop

from ..follow.body import find_body
from ..follow.step_count import StepCount
from ..guard.checkpointing import graph_keeping_checkpoints, no_checkpoints

Vector = Float[Tensor, "D"]


class Placed:
    """The trained parameters of a model as one vector of D numbers. model: an `nn.Module`. loop: its body and step."""

    def __init__(self, model: nn.Module, loop: Loop) -> None:
        self.model, self.body = model, find_body(model, loop)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not trained:
            raise CoverageError("the model has no parameter with requires_grad: nothing is trained")
        dtypes = {p.dtype for p in trained.values()}
        if len(dtypes) > 1:
            raise ValueError(
                f"trained parameters must have one dtype, got {sorted(map(str, dtypes))}; use model.to(...)"
            )
        self.trained = trained
        self.shapes = {name: p.shape for name, p in trained.items()}
        self.sizes = [p.numel() for p in trained.values()]
        self.D = sum(self.sizes)
        names = {id(p): name for name, p in trained.items()}
        self.places = [
            (module, local, names[id(p)])
            for module in model.modules()
            for local, p in module._parameters.items()
            if id(p) in names
        ]
        inside = {id(p) for p in self.body.parameters.values()}
        self.in_body = {name for name, p in trained.items() if id(p) in inside}
        if not self.in_body:
            raise CoverageError("no parameter of the body is trained: all have requires_grad=False")
        self.body_places = [place for place in self.places if place[2] in self.in_body]
        self.count = StepCount(self.body.inner)  # of the last forward pass with `weights_at`

    def vector(self) -> Vector:
        """The parameters as they are, copied."""
        return torch.cat([p.detach().flatten() for p in self.trained.values()])

    @property
    def steps_seen(self) -> int:
        return self.count.seen

    def named(self, vector: Vector) -> dict[str, Tensor]:
        """Views of a vector, by parameter name."""
        parts = torch.split(vector, self.sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    @contextmanager
    def weights(self, vector: Vector) -> Iterator[None]:
        """Put a vector in the place of the parameters for the duration of a block."""
        with ExitStack() as stack:
            stack.enter_context(graph_keeping_checkpoints())
            stack.enter_context(no_checkpoints())
            stack.enter_context(self._restored())
            self._put(self.places, self.named(vector))
            yield

    @contextmanager
    def copied_in(self, vector: Vector) -> Iterator[None]:
        """Copy a vector into the parameters themselves for the duration of a block."""
        own = self.vector()
        try:
            self._copy(vector)
            yield
        finally:
            self._copy(own)

    def _copy(self, vector: Vector) -> None:
        with torch.no_grad():
            for name, part in self.named(vector).items():
                self.trained[name].copy_(part)

    @contextmanager
    def weights_at(self, vector_at: Callable[[int], Vector]) -> Iterator[None]:
        """Put in place, at the beginning of each loop step t, `vector_at(t)` for the body; outside, `vector_at(0)`."""
        calls, seen = self.body.calls, 0
        count = self.count = StepCount(self.body.inner)

        def begin(module: Any, args: Any) -> None:
            nonlocal seen
            if seen and count.step and calls == "one":
                raise CoverageError(
                    f"the loss calls the model again after {count.step} steps, so a step may mean two things; "
                    "write Loop(..., calls='restart') or calls='continue'"
                )
            seen += 1
            if calls == "continue":
                count.begin_cycle()
            else:
                count.restart()
            self._put(self.body_places, self.named(vector_at(0)))

        def step(module: Any, args: Any) -> None:
            self._put(self.body_places, self.named(vector_at(count.begin_step())))

        def end(module: Any, args: Any) -> None:
            self._put(self.body_places, self.named(vector_at(0)))

        with self.weights(vector_at(0)), ExitStack() as stack:
            if all(module is not self.model for module in self.body.steps):
                stack.enter_context(self.model.register_forward_pre_hook(begin, prepend=True))
            if self.body.cycle is not None:
                cycle = self.body.cycle.register_forward_pre_hook(lambda *_: count.begin_cycle(), prepend=True)
                stack.enter_context(cycle)
            for module in self.body.steps:
                stack.enter_context(module.register_forward_pre_hook(step, prepend=True))
            if self.body.end is not None:
                stack.enter_context(self.body.end.register_forward_pre_hook(end, prepend=True))
            yield

    def _put(self, places: list[tuple[nn.Module, str, str]], weights: Mapping[str, Tensor]) -> None:
        for module, local, name in places:
            _set(module, local, weights[name])

    @contextmanager
    def _restored(self) -> Iterator[None]:
        own = [(module, local, module._parameters[local]) for module, local, _ in self.places]
        try:
            yield
        finally:
            for module, local, p in own:
                _set(module, local, p)


def _set(module: Any, local: str, value: Tensor | None) -> None:
    module._parameters[local] = value
    if hasattr(module, "_flat_weights"):  # torch's recurrent layers keep a list of their own
        module._flat_weights = [module._parameters[key] for key in module._flat_weights_names]
