"""automaton: a machine over k-means states that reads bits, learned from trajectories and run without the model.

The proxy only names the last state of the model's own trajectory. This goes further: from state and bit to the next
state by a table, so that the whole computation is replaced. It is right only if the model computes that way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .states import nearest

Array = np.ndarray
ORDERS = ("first to last", "last to first")  # which bit a step reads: t, or n + 1 - t


@dataclass(frozen=True)
class Automaton:
    """next[s, b] of every state and bit, where it starts, and what each state says."""

    next: Int[Array, "k 2"]  # -1: never seen
    start: Int[Array, "2"]  # the state after the first bit
    parity: Int[Array, "k"]
    order: str
    determinism: float  # share of the seen transitions that the table repeats

    @classmethod
    def learn(cls, centres: Float[Array, "k d"], h: Float[Array, "n t d"], bits: Int[Array, "n t"]) -> Automaton:
        """From trajectories of strings that are all t bits long; of both orders, the one that is more of a machine."""
        k = len(centres)
        state = nearest(h.reshape(-1, h.shape[-1]), centres)[0].reshape(h.shape[:2])
        tried = []
        for order in ORDERS:
            read = ordered(bits, order)
            counts = np.zeros((k, 2, k))
            np.add.at(counts, (state[:, :-1], read[:, 1:], state[:, 1:]), 1)
            first = np.zeros((2, k))
            np.add.at(first, (read[:, 0], state[:, 0]), 1)
            says = np.zeros((k, 2))
            np.add.at(says, (state, np.cumsum(read, axis=1) % 2), 1)
            table = np.where(counts.sum(-1) > 0, counts.argmax(-1), -1)
            same = float(counts.max(-1).sum() / counts.sum())
            tried.append(cls(table, first.argmax(-1), says.argmax(-1), order, same))
        return max(tried, key=lambda a: a.determinism)

    def __call__(self, bits: Int[Array, "n t"]) -> Int[Array, "n"]:
        """The parity that the machine ends with; -1 if it met a transition that was never seen."""
        read = ordered(np.asarray(bits), self.order)
        state = self.start[read[:, 0]]
        for t in range(1, read.shape[1]):
            state = np.where(state < 0, -1, self.next[state, read[:, t]])
        return np.where(state < 0, -1, self.parity[state])


def ordered(bits: Int[Array, "n t"], order: str) -> Int[Array, "n t"]:
    """The bits in the order in which the steps read them."""
    return bits if order == ORDERS[0] else bits[:, ::-1]
