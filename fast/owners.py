"""owners: which example each row of a call belongs to, where its shape does not say.

Rows that were gathered, packed or sorted (experts, sequences without padding) have no batch axis. A backward pass of
every example's loss times a weight of its own, before the one that counts, tells: a row's gradient is that much larger.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

OCTAVES = 32  # powers of two, which scale gradients exactly, before numbers between them are used


def loss_weights(n: int) -> Float[Tensor, "n"]:
    """One for each example, no two alike.

    >>> loss_weights(3)
    tensor([1.5259e-05, 3.0518e-05, 6.1035e-05], dtype=torch.float64)
    """
    i = torch.arange(n)
    between = -(-n // OCTAVES)
    return torch.exp2((i % OCTAVES - OCTAVES // 2).double()) * (1 + (i // OCTAVES).double() / between)


def rows_of(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """What may be of different examples: along the first axis, or, if that is one block of all rows, the second."""
    return x[0] if len(lead) > 1 and lead[0] == 1 else x


def row_sizes(delta: Float[Tensor, "R ..."]) -> Float[Tensor, "R"]:
    return torch.linalg.vector_norm(delta.flatten(1), dim=1, dtype=torch.float64)


def find_owners(weighted: Float[Tensor, "R"], plain: Float[Tensor, "R"], n: int) -> tuple[Int[Tensor, "R"], bool]:
    """The example whose weight each row's gradient has followed, and whether every row has followed just one.

    A row without a gradient belongs to nobody (-1): it adds nothing.

    >>> find_owners(4 * loss_weights(3).flip(0), torch.full((3,), 4.0, dtype=torch.float64), 3)
    (tensor([2, 1, 0]), True)
    """
    known = torch.log(loss_weights(n)).to(plain.device)
    order = torch.argsort(known)
    ranked = known[order]
    ratio = torch.log(weighted / plain)
    at = torch.searchsorted((ranked[1:] + ranked[:-1]) / 2, ratio)
    gap = float((ranked[1:] - ranked[:-1]).min())
    some = plain > 0
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
