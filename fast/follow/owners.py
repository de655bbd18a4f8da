"""owners: which example each row of a call belongs to, where its shape does not say.

Rows that were gathered, packed or sorted (experts, sequences without padding) have no batch axis. A backward pass of
every example's loss times a weight of its own, before the one that counts, tells: a row's gradient is that much larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

NOTHING = 1e-20  # of the largest row
OCTAVES = 32  # powers of two, which scale gradients exactly, before numbers between them are used


class MixedRows(Exception):
    """A call's rows are not each of one example."""


class Owners:
    """Whose rows the calls of one pass hold. `weighing`: the pass that is going on only serves to find out."""

    def __init__(self) -> None:
        self.n = 0
        self.weighing = False
        self._leads: set[tuple[int, ...]] = set()  # of all calls: the sizes of what stands before an output's columns
        self._vectors: set[int] = set()  # rows of states that are (n, d)
        self._weighted: dict[Any, Tensor] = {}  # of each call in doubt, the sizes of its rows

    def see_state(self, inputs: Iterable[Any]) -> None:
        """The inputs of a step."""
        self._vectors |= {len(x) for x in inputs if isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point()}

    def see_call(self, leads: Iterable[tuple[int, ...]]) -> None:
        self._leads.update(leads)

    @property
    def in_doubt(self) -> bool:
        """Whether some call's rows might be of any example."""
        return any(self.doubts(lead) for lead in self._leads)

    def doubts(self, lead: tuple[int, ...]) -> bool:
        """Other rows than n; or n of them, one after another, unless whole states are so."""
        if self.n <= 1 or not lead or not lead[0]:
            return False
        return lead[0] != self.n or (len(lead) == 1 and self.n not in self._vectors)

    def of(self, call: Any, delta: Tensor, lead: tuple[int, ...]) -> Int[Tensor, "R"] | None:
        """Of the rows of a gradient; None while that is being found out."""
        sizes = row_sizes(rows_of(delta, lead))
        if self.weighing:
            self._weighted[call] = sizes
            return None
        if not torch.isfinite(sizes).all():  # an error soon; any example will do
            return torch.arange(len(sizes), device=sizes.device) * self.n // len(sizes)
        if call not in self._weighted:
            raise MixedRows
        owners, single = find_owners(self._weighted[call], sizes, self.n)
        if not single:
            raise MixedRows
        return owners


def loss_weights(n: int) -> Float[Tensor, "n"]:
    """One for each example, no two alike.

    >>> loss_weights(3)
    tensor([0.5000, 1.0000, 2.0000], dtype=torch.float64)
    """
    i, octaves = torch.arange(n), min(n, OCTAVES)
    between = -(-n // octaves)
    return torch.exp2((i % octaves - octaves // 2).double()) * (1 + (i // octaves).double() / between)


def rows_of(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """What may be of different examples: along the first axis, or, if that is one block of all rows, the second."""
    return x[0] if len(lead) > 1 and lead[0] == 1 else x


def row_sizes(delta: Float[Tensor, "R ..."]) -> Float[Tensor, "R"]:
    wide = torch.complex128 if delta.is_complex() else torch.float64
    return torch.linalg.vector_norm(delta.flatten(1), dim=1, dtype=wide)


def find_owners(weighted: Float[Tensor, "R"], plain: Float[Tensor, "R"], n: int) -> tuple[Int[Tensor, "R"], bool]:
    """The example whose weight each row's gradient has followed, and whether every row has followed just one.

    A row without a gradient belongs to nobody (-1): it adds nothing. So does one so small that its weighted twin may be
    no number any more.

    >>> find_owners(4 * loss_weights(3).flip(0), torch.full((3,), 4.0, dtype=torch.float64), 3)
    (tensor([2, 1, 0]), True)
    """
    known = torch.log(loss_weights(n)).to(plain.device)
    order = torch.argsort(known)
    ranked = known[order]
    ratio = torch.log(weighted / plain)
    at = torch.searchsorted((ranked[1:] + ranked[:-1]) / 2, ratio)
    gap = float((ranked[1:] - ranked[:-1]).min())
    some = plain > NOTHING * plain.max()
    good = (ratio - ranked[at]).abs() <= min(0.05, gap / 4)
    return torch.where(some, order[at], -1), bool((good | ~some).all())


def in_order(owners: Int[Tensor, "R"], n: int) -> bool:
    """Whether equally many rows of each example stand together, those of the first example first.

    >>> in_order(torch.tensor([0, -1, 1, 1]), 2), in_order(torch.tensor([1, 0]), 2)
    (True, False)
    """
    if len(owners) % n:
        return False
    regular = torch.arange(n, device=owners.device).repeat_interleave(len(owners) // n)
    return bool(((owners == regular) | (owners < 0)).all())


def by_example(x: Tensor, owners: Int[Tensor, "R"], n: int) -> Float[Tensor, "n T ..."]:
    """The rows of one example together, in their order; shorter ones are followed by zeros.

    >>> by_example(torch.arange(1, 5), torch.tensor([1, 0, -1, 1]), 2)
    tensor([[2, 0],
            [1, 4]])
    """
    if in_order(owners, n):
        return x.reshape(n, -1, *x.shape[1:])
    own = (owners >= 0).nonzero().flatten()
    own = own[torch.argsort(owners[own], stable=True)]
    counts = torch.bincount(owners[own], minlength=n)
    first = counts.cumsum(0) - counts
    out = x.new_zeros(n, max(1, int(counts.max())), *x.shape[1:])
    out[owners[own], torch.arange(len(own), device=x.device) - first[owners[own]]] = x[own]
    return out
