"""Replay: a training run carried out, with a digest of its weights after every update, so that no replay can stray.

All states are kept where they are small; else one every so many updates, about sqrt(K) of them, and those between are
made again when they are asked for. With a file, a run that was killed goes on from the last state written to it, and
one that is done is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdi.errors import AuditError, NonFiniteError
from sdi.retraining.change import Change
from sdi.retraining.training_run import TrainingRun

from ..guard.restore_model import unharmed
from .batch_gradient import batch_gradient
from .placed import Placed, Vector
from .state_file import SAVE_EVERY, digest, read_states, write_states
from .update import State, first_state, seen_by_queries, update

HELD_BYTES = 64 << 20  # of states: where all of a window's take no more, none of them need be made again
CHECKED = 4  # every so many updates are made again all the same, to see that training replays

Tell = Callable[[int, int], None]  # updates done, of how many
NOT_ALIKE = (
    "training does not replay bit for bit: the weights after update {} (from 0) differ from those of the first time; "
    "make it deterministic (torch.use_deterministic_algorithms, as many threads, no state kept between calls)"
)


class Stepper:
    """One update after another of a training run. run: the training run."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.placed = Placed(run.make_model(), run.loop)

    def next(self, k: int, state: State, change: Change | None = None) -> State:
        """The state after update k, as the change has it."""
        gradient = batch_gradient(self.run, self.placed, k, state[0], change)
        new = update(self.run, k, state, gradient, self.placed.sizes)
        if not bool(torch.isfinite(new[0]).all()):
            raise NonFiniteError(f"update {k} of training makes weights that are not finite; check rate and data")
        return new

    def retrain(
        self, change: Change, first: int, state: State, file: Path | None = None, tell: Tell = lambda done, of: None
    ) -> Vector:
        """The weights that queries see after training with a change in the updates from `first` on.

        change: of example weights. state: before update `first`. file: for states that a killed run goes on from.
        tell: called after every update with how many are done, of how many.
        """
        run, begin, saved = self.run, first, time.monotonic()
        change.check(run.ids)
        if file is not None and file.exists():
            marks, _ = read_states(file)
            begin, state = max(marks.items())
        with unharmed(self.placed.model):
            for k in range(begin, run.updates):
                state = self.next(k, state, change)
                if file is not None and time.monotonic() - saved > SAVE_EVERY:
                    write_states(file, {k + 1: state}, [])
                    saved = time.monotonic()
                tell(k + 1 - first, run.updates - first)
        if file is not None:
            file.unlink(missing_ok=True)
        return seen_by_queries(run, state)


class Replay(Stepper):
    """A training run that has been carried out once, and can be carried out again from any update.

    run: the training run. first: the first update whose state may be asked for; before it none is kept.
    file: where its states are kept between processes; None keeps them in memory.
    tell: called after every update with how many are done, of how many.
    """

    def __init__(
        self, run: TrainingRun, first: int = 0, file: Path | None = None, tell: Tell = lambda done, of: None
    ) -> None:
        super().__init__(run)
        self.first = first
        check_first_update(run, self.placed)
        self.stride = 1  # updates from one kept state to the next; settled when a state is known
        self.marks: dict[int, State] = {}
        self.digests: list[bytes] = []
        self.seconds, self.timed = 0.0, 0
        if file is not None and file.exists():
            self.marks, self.digests = read_states(file)
        self._carry_out(file, tell)

    def _carry_out(self, file: Path | None, tell: Tell) -> None:
        run, done, saved = self.run, len(self.digests), time.monotonic()
        state = self.marks.pop(done) if done else first_state(run, self.placed.vector())
        if (run.updates - self.first) * state.nbytes > HELD_BYTES:
            self.stride = max(1, math.isqrt(run.updates - self.first))
        with unharmed(self.placed.model):
            self._check_kept(done)
            began = time.process_time()
            for k in range(done, run.updates):
                if k >= self.first and (k - self.first) % self.stride == 0:
                    self.marks[k] = state
                state = self.next(k, state)
                self.digests.append(digest(state[0]))
                self.timed += 1
                if file is not None and (k + 1 == run.updates or time.monotonic() - saved > SAVE_EVERY):
                    write_states(file, {**self.marks, k + 1: state}, self.digests)
                    saved = time.monotonic()
                tell(k + 1, run.updates)
            self.seconds = time.process_time() - began
        self.last = state

    def _check_kept(self, done: int) -> None:
        """What a file holds must be what this program would make: one of its updates is made again."""
        for mark in [m for m in self.marks if m < done][-1:]:
            self.checked(mark, self.marks[mark])

    @property
    def weights(self) -> Vector:
        """The weights that queries see after training."""
        return seen_by_queries(self.run, self.last)

    @property
    def seconds_per_update(self) -> float:
        """CPU seconds of one update of training, digests included; measured now if the run was read from a file."""
        if not self.timed:
            began = time.process_time()
            with unharmed(self.placed.model):
                self.next(self.first, self.marks[self.first])
            return time.process_time() - began
        return self.seconds / self.timed

    def backwards(self) -> Iterator[tuple[int, State]]:
        """(k, the state before update k) for every update from the last to `first`, replayed from the kept states."""
        marks = sorted(self.marks)
        for mark, stop in reversed(list(zip(marks, [*marks[1:], self.run.updates], strict=True))):
            states = [self.marks[mark]]
            for k in range(mark, stop - 1):
                states.append(self.checked(k, states[-1]))
            if stop == mark + 1 and mark % CHECKED == 0:
                self.checked(mark, states[0])
            yield from ((mark + i, states[i]) for i in reversed(range(len(states))))

    def checked(self, k: int, state: State) -> State:
        """The state after update k, which must be that of the first time, bit for bit."""
        new = self.next(k, state)
        if digest(new[0]) != self.digests[k]:
            raise AuditError(NOT_ALIKE.format(k))
        return new

    def state_before(self, k: int) -> State:
        """The state before update k, replayed from the nearest kept one."""
        mark = max(m for m in self.marks if m <= k)
        state = self.marks[mark]
        with unharmed(self.placed.model):
            for j in range(mark, k):
                state = self.checked(j, state)
        return state


def check_first_update(run: TrainingRun, placed: Placed) -> None:
    """Before hours are spent: the first gradient, taken twice by two models, must be the same bit for bit."""
    other = Placed(run.make_model(), run.loop)
    if digest(other.vector()) != digest(placed.vector()):
        raise AuditError(
            "model() makes other weights at every call: its random numbers are not recorded; seed them inside of it, "
            "or give a model whose weights are the first ones"
        )
    made = []
    for each in (placed, other):
        with unharmed(each.model):
            before = _buffers(each.model)
            made.append(digest(batch_gradient(run, each, 0, each.vector())))
            changed = [n for n, b in _buffers(each.model).items() if n not in before or not torch.equal(b, before[n])]
        if changed:
            raise AuditError(
                f"training changes the buffer {changed[0]!r} of the model, which is no weight: what it does to later "
                "updates would be lost; use a module without running statistics"
            )
    if made[0] != made[1]:
        raise AuditError(NOT_ALIKE.format(0))


def _buffers(model: Any) -> dict[str, Tensor]:
    return {name: b.detach().clone() for name, b in model.named_buffers()}
