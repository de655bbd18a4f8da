"""owners: which example each row of a call belongs to, where `row_proof` cannot say: by values.

Owners are on the host, whatever the device: what is done with them depends on them.
Rows that were gathered, packed or sorted (experts, sequences without padding) have no batch axis. A backward pass of
every example's loss times a weight of its own, before the one that counts, tells: a row's gradient is that much larger.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

NOTHING = 1e-20  # of the largest row
SMALL, LOOSELY = 1e-6, 0.05  # of the largest row: such small ones may be mostly rounding, and follow loosely
FOLLOWS = {torch.float64: 1e-6, torch.bfloat16: LOOSELY, torch.float16: LOOSELY}  # how exactly; 1e-3 otherwise
WITHOUT_DOUBLE = {"mps"}  # devices that have no double precision
HOST = torch.device("cpu")  # named: the user may have set another default
OCTAVES = 32  # powers of two, which scale gradients exactly, before numbers between them are used


class MixedRows(Exception):
    """Some row of a call depends on more than one example."""


class NeedsWeighing(Exception):
    """It is not known which example each row of a call belongs to: a pass with weighted losses has to come first."""


class Owners:
    """The example of each row of each call in one pass, found by comparing with a pass of weighted losses.

    weighing: this is the pass of weighted losses. weighed: it has been run, so that rows can be told apart.
    """

    def __init__(self) -> None:
        self.n = 0
        self.weighing = self.weighed = False
        self._weighted: dict[Any, Tensor] = {}  # of each call, the sizes of its rows

    def record(self, call: Any, rows: Float[Tensor, "R ..."]) -> None:
        """Keep the sizes of a call's rows in the pass of weighted losses.

        Of every call: under recompute, it may come out later that its rows are not proven.
        """
        self._weighted[call] = row_sizes(rows)

    def of(self, call: Any, rows: Float[Tensor, "R ..."]) -> Int[Tensor, "R"]:
        """The example of each row of a gradient."""
        sizes = row_sizes(rows).cpu().double()
        if not torch.isfinite(sizes).all():  # NonFiniteError follows; until then any example will do
            return torch.arange(len(sizes), device=HOST) * self.n // len(sizes)
        if not self.weighed:
            raise NeedsWeighing
        if call not in self._weighted:
            raise MixedRows
        owners, single = find_owners(self._weighted[call].cpu().double(), sizes, self.n, FOLLOWS.get(rows.dtype, 1e-3))
        if not single:
            raise MixedRows
        return owners


def regular_owners(rows: int, n: int) -> Int[Tensor, "R"]:
    """The example of each row, if each of n examples has equally many rows in a block, in order.

    >>> regular_owners(6, 3)
    tensor([0, 0, 1, 1, 2, 2])
    """
    return torch.arange(n, device=HOST).repeat_interleave(rows // n)


def loss_weights(n: int) -> Float[Tensor, "n"]:
    """A weight for each example's loss, no two equal: powers of two first, then numbers between them.

    >>> loss_weights(3)
    tensor([0.5000, 1.0000, 2.0000], dtype=torch.float64)
    """
    i, octaves = torch.arange(n, device=HOST), min(n, OCTAVES)
    between = -(-n // octaves)
    return torch.exp2((i % octaves - octaves // 2).double()) * (1 + (i // octaves).double() / between)


def rows_by_block(rows: int, columns: int, block: int, n: int) -> Int[Tensor, "R"]:
    """The example of each row of a tensor whose block (`row_rules`) is a number of whole rows.

    >>> rows_by_block(6, 4, 4, 3), rows_by_block(6, 4, 8, 3)
    (tensor([0, 1, 2, 0, 1, 2]), tensor([0, 0, 1, 1, 2, 2]))
    """
    return torch.arange(rows, device=HOST) // (block // columns) % n


def flat_rows(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """x with all axes before the columns (`lead`) flattened into one; images stay as they are, one per row."""
    return x if lead[1:] == (1,) else x.reshape(-1, *x.shape[len(lead) :])


def rows_of(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """x with rows along its first axis: x itself, or x[0] if its first axis has size 1."""
    return x[0] if len(lead) > 1 and lead[0] == 1 else x


def row_sizes(delta: Float[Tensor, "R ..."]) -> Float[Tensor, "R"]:
    if delta.device.type in WITHOUT_DOUBLE:
        return torch.linalg.vector_norm(delta.reshape(len(delta), -1).float(), dim=1)
    wide = torch.complex128 if delta.is_complex() else torch.float64
    return torch.linalg.vector_norm(delta.reshape(len(delta), -1), dim=1, dtype=wide)


def find_owners(
    weighted: Float[Tensor, "R"], plain: Float[Tensor, "R"], n: int, follows: float = LOOSELY
) -> tuple[Int[Tensor, "R"], bool]:
    """The example whose weight each row's gradient has followed, and whether every row has followed just one.

    A row without a gradient belongs to nobody (-1): it adds nothing. So does one so small that its weighted twin may be
    no number any more.

    >>> find_owners(4 * loss_weights(3).flip(0), torch.full((3,), 4.0, dtype=torch.float64), 3)
    (tensor([2, 1, 0]), True)
    """
    known = torch.log(loss_weights(n))
    order = torch.argsort(known)
    ranked = known[order]
    ratio = torch.log(weighted / plain)
    at = torch.searchsorted((ranked[1:] + ranked[:-1]) / 2, ratio)
    gap = float((ranked[1:] - ranked[:-1]).min())
    some = plain > NOTHING * plain.max()
    allowed = torch.where(plain > SMALL * plain.max(), follows, LOOSELY).clamp(max=gap / 4)
    good = (ratio - ranked[at]).abs() <= allowed
    return torch.where(some, order[at], -1), bool((good | ~some).all())


def in_order(owners: Int[Tensor, "R"], n: int) -> bool:
    """Whether equally many rows of each example stand together, those of the first example first.

    >>> in_order(torch.tensor([0, -1, 1, 1]), 2), in_order(torch.tensor([1, 0]), 2)
    (True, False)
    """
    if len(owners) % n:
        return False
    return bool(((owners == regular_owners(len(owners), n)) | (owners < 0)).all())


def displaced(owners: Int[Tensor, "R"], n: int) -> int | None:
    """An example whose rows stand where another's would, if equally many rows of each stood in order.

    >>> displaced(torch.tensor([1, 0, 2]), 3), displaced(torch.tensor([0, 1, 1]), 2)
    (1, None)
    """
    if len(owners) % n:
        return None
    wrong = ((owners != regular_owners(len(owners), n)) & (owners >= 0)).nonzero()
    return int(owners[wrong[0, 0]]) if len(wrong) else None


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
    example, place = owners[own], torch.arange(len(own), device=HOST) - first[owners[own]]
    out[example.to(x.device), place.to(x.device)] = x[own.to(x.device)]
    return out
