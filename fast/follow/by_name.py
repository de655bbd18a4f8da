"""Parameters used by name in the forward that holds the loop: first states, gates, step embeddings.

No module's call could be run again for them alone. While the loss is computed, every operation that takes such a
parameter is given a copy of it that belongs to the step it runs in, or to none, so a use counts for the step in which
it is made. A row that is taken by number, `self.gates[t]`, is as good as the parameter: what takes the row is the use.
In the backward pass, per-example gradients are taken where a value that all examples share first meets the
examples (`row_proof` says where that is), and pulled back from there to the copies. Their sum is compared with the
gradient that autograd has for each copy. What is not proven is taken by one backward pass for each example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from sdi.errors import CoverageError

from ..rows.row_proof import RowProof
from ..rows.row_rules import SHARED, UNKNOWN, Shape, kind_of, locate
from ..sketching.sinks import Slot
from .call import same_output

FROM_EDGES = tuple(int(k) for k in torch.__version__.split(".")[:2]) >= (2, 6)  # a backward pass may begin at an edge
Use = tuple[str, Slot]
Moment = tuple[Slot, int]  # the step that is going on, and how many have begun
Index = int | tuple[int, ...]
UNBIND = (Tensor.unbind, torch.unbind)  # by which one iterates, too


class Pass(Protocol):
    """What is asked of the pass that is followed (`Tracer`)."""

    n: int
    slot: Slot
    rows: RowProof

    @property
    def counting(self) -> bool: ...
    @property
    def in_unit(self) -> bool: ...
    @property
    def moment(self) -> Moment: ...
    def count_calls(self, names: Sequence[str], moment: Moment | None = None) -> None: ...
    def hook_node(self, node: Any, hook: Any) -> None: ...
    def deliver_whole(self, name: str, slot: Slot, g: Any) -> None: ...


class Row(NamedTuple):
    """A row of a parameter, taken by number before it is used."""

    tensor: Tensor  # kept, so that no other has its id
    name: str
    at: Index
    taken: Moment


class NeedsEachAlone(Exception):
    """It is not proven where examples meet what they share: a backward pass for each example has to come first."""


class ByName(TorchFunctionMode):
    """Gives every operation of a forward pass the copies of these parameters that belong to its step."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], tracer: Pass, each_alone: bool) -> None:
        super().__init__()
        self.tracer, self.each_alone = tracer, each_alone
        self.copies: dict[Use, Tensor] = {}
        self._names = {id(p): name for name, p in parameters.items()}
        self._parameters = parameters
        self._rows: dict[int, Row] = {}
        self._counted: set[str] = set()  # parameters that were used, themselves or a row of them
        self._found: dict[int, Tensor] = {}  # of each copy's node, the gradients of every example, (n, ...)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.tracer.counting:
            return func(*args, **kwargs)
        used = self._used(args, kwargs)
        if not used:
            return func(*args, **kwargs)
        if self.tracer.in_unit and self._makes_numbers(func, args, kwargs):
            raise CoverageError(
                f"body parameter {used[0]!r} is used within a module that is to be run again, which does not hold it; "
                "pass it as an argument, or use memory='hooks'"
            )
        if args and id(args[0]) in self._names and not kwargs and torch.is_grad_enabled():
            if func is Tensor.__getitem__ and _by_number(args[1]):
                return self._take(args[0], args[1])
            if func in UNBIND and args[1:] in ((), (0,)):
                return tuple(self._take(args[0], k) for k in range(len(args[0])))
        out = func(*self._copied(args), **self._copied(kwargs))
        if any(isinstance(y, Tensor) and y.requires_grad for y in pytree.tree_leaves(out)):
            self._count(used)
        return out

    def _count(self, used: Sequence[str]) -> None:
        self._counted.update(used)
        self.tracer.count_calls(used)

    def _take(self, parameter: Tensor, at: Index) -> Tensor:
        """A row. What takes it without an operation of PyTorch's takes that of the step which is going on now."""
        row: Tensor = self._copy(parameter)[at]
        self._rows[id(row)] = Row(row, self._names[id(parameter)], at, self.tracer.moment)
        return row

    def end_forward(self) -> None:
        """Rows count where they were taken if no operation that takes one was seen (a custom autograd.Function)."""
        for row in self._rows.values():
            if row.name not in self._counted:
                self.tracer.count_calls([row.name], row.taken)

    def _makes_numbers(self, func: Any, args: Any, kwargs: Any) -> bool:
        out = func(*args, **kwargs)
        return isinstance(out, Tensor) and out.dtype.is_floating_point

    def passed(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of a module that is to be run again, with copies in place of the parameters themselves."""
        self._count(self._used(args, kwargs))
        return self._copied(args), self._copied(kwargs)

    def _used(self, args: Any, kwargs: Any) -> list[str]:
        return [name for x in _flat(args, kwargs) if (name := self._name_of(x)) is not None]

    def _name_of(self, x: Any) -> str | None:
        row = self._rows.get(id(x))
        return self._names.get(id(x)) if row is None else row.name

    def _copied(self, given: Any) -> Any:
        return pytree.tree_map(self._copy, given)

    def _copy(self, x: Any) -> Any:
        name, row = self._name_of(x), self._rows.get(id(x))
        if name is None:
            return x
        if row is not None:
            return self._copy(self._parameters[name])[row.at]
        use = name, self.tracer.slot
        if use not in self.copies:
            self.copies[use] = self._parameters[name].detach().requires_grad_()
        return self.copies[use]

    @contextmanager
    def backward(self) -> Iterator[None]:
        """For the duration of the backward pass: it may need what was written over, which no module's call does."""
        try:
            yield
        except RuntimeError as error:
            if "inplace operation" not in str(error):
                raise
            raise CoverageError(
                f"a body parameter among {sorted({name for name, _ in self.copies})} is used by name, together with a "
                f"value that was changed in place afterwards, so that autograd cannot take its gradient ({error}); do "
                "not change it in place, or leave the parameter out of Loop(body=...)"
            ) from error

    def begin(self, losses: Tensor) -> None:
        """The rows of the graph have been followed as far as they can be: a gradient is about to be taken."""
        if not self.copies:
            return
        if self.each_alone and self.tracer.n > 1:
            self._each_alone(losses)
            return
        if self.tracer.n == 1:
            return
        for node in self._leading(losses.grad_fn):
            if self._meets(node) or self._undecided(node):
                self.tracer.hook_node(node, partial(self._on_node, node))

    def _each_alone(self, losses: Tensor) -> None:
        copies = list(self.copies.values())
        parts: list[list[Tensor]] = [[] for _ in copies]
        for one in torch.eye(len(losses), dtype=losses.dtype, device=losses.device):
            found = torch.autograd.grad(losses, copies, one, retain_graph=True, allow_unused=True)
            for part, copy, g in zip(parts, copies, found, strict=True):
                part.append(torch.zeros_like(copy) if g is None else g)
        self._found = {id(copy): torch.stack(part) for copy, part in zip(copies, parts, strict=True)}

    def finish(self, leaves: Sequence[Tensor], totals: Sequence[Tensor | None]) -> None:
        """Hand the gradients of every example to their sinks. totals: autograd's own gradients at leaves of the graph,
        which those of the examples must add up to."""
        total_of = {id(leaf): total for leaf, total in zip(leaves, totals, strict=True)}
        for (name, slot), copy in self.copies.items():
            total = total_of.get(id(copy))
            if total is None:
                continue
            total = total if total.layout == torch.strided else total.to_dense()
            found = total[None] if self.tracer.n == 1 else self._found.get(id(copy))
            if found is None or not _sums_to(found, total):
                if self.each_alone:
                    raise CoverageError(
                        f"the gradients of body parameter {name!r}, which is used by name in the forward that holds "
                        "the loop, do not add up to autograd's; leave it out of Loop(body=...)"
                    )
                raise NeedsEachAlone
            self.tracer.deliver_whole(name, slot, found)

    def _leading(self, root: Any) -> list[Any]:
        """The nodes of the graph from which the gradient goes on to a copy."""
        ends = {get_gradient_edge(copy).node for copy in self.copies.values()}
        leads: dict[Any, bool] = {node: True for node in ends}
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                leads[node] = any(leads.get(u, False) for u, _ in node.next_functions if u is not None)
            elif node not in leads:
                leads[node] = False
                stack.append((node, True))
                stack += [(u, False) for u, _ in node.next_functions if u is not None and u not in leads]
        self._leads = {node for node, does in leads.items() if does}
        return [node for node in self._leads if node not in ends]

    def _blocks(self, node: Any) -> list[int]:
        rows = self.tracer.rows
        return list(rows._found.get(node, {}).values())

    def _undecided(self, node: Any) -> bool:
        blocks = self._blocks(node)
        return not blocks or UNKNOWN in blocks

    def _meets(self, node: Any) -> bool:
        """Whether an output of a node has rows of examples, and an input that leads to a copy is shared by them."""
        return any(block != SHARED for block in self._blocks(node)) and any(True for _ in self._shared_edges(node))

    def _shared_edges(self, node: Any) -> Iterator[tuple[int, Any, int]]:
        for k, (upstream, place) in enumerate(node.next_functions):
            if upstream in self._leads and self.tracer.rows.block_of(upstream, place) == SHARED:
                yield k, upstream, place

    def _on_node(self, node: Any, deltas: tuple[Tensor | None, ...]) -> None:
        if all(delta is None for delta in deltas) or kind_of(node) == "_Recompute":
            return  # what a unit shares among examples is missing from the sum
        if self._undecided(node):
            raise NeedsEachAlone
        if not self._meets(node):
            return
        known = [k for k, delta in enumerate(deltas) if delta is not None]
        if len(known) != 1:
            raise NeedsEachAlone
        delta = deltas[known[0]]
        assert delta is not None
        block = self.tracer.rows.block_of(node, known[0])
        at = locate(tuple(delta.shape), block, self.tracer.n) if block > 0 else None
        if at is None:
            raise NeedsEachAlone
        for k, upstream, place in self._shared_edges(node):
            shape = tuple(upstream._input_metadata[place].shape)
            self._pull(upstream, place, self._per_example(node, k, len(deltas), known[0], delta, at, shape))

    def _per_example(
        self, node: Any, edge: int, outputs: int, output: int, delta: Tensor, at: tuple[int, int], shape: Shape
    ) -> Float[Tensor, "n ..."]:
        """The gradient of every example at an input of a node, from the gradient at one of its outputs."""

        def backward(d: Tensor) -> Tensor:
            parts = node(*(d if k == output else None for k in range(outputs)))
            part = parts[edge] if isinstance(parts, tuple) else parts
            assert isinstance(part, Tensor)
            return part

        whole = delta if kind_of(node) == "Expand" else backward(delta)
        if whole.shape == delta.shape and tuple(whole.shape) != shape:  # an input that was stretched, not summed yet
            return _stretched(_split(whole, at, self.tracer.n), shape)
        one_each = torch.eye(self.tracer.n, dtype=torch.bool, device=delta.device)
        owner = torch.arange(delta.shape[at[0]], device=delta.device) // at[1] % self.tracer.n
        mask_shape = [-1 if k == at[0] else 1 for k in range(delta.dim())]
        return torch.stack(
            [backward(torch.where(one[owner].view(mask_shape), delta, 0)).sum_to_size(shape) for one in one_each]
        )

    def _pull(self, node: Any, place: int, G: Float[Tensor, "n ..."]) -> None:
        """Add what the gradients of every example at a shared value are at the copies that it was made of."""
        copies = {get_gradient_edge(copy).node: copy for copy in self.copies.values()}
        if node in copies:
            self._add(copies[node], G)
            return
        if not FROM_EDGES:
            raise NeedsEachAlone
        wanted = list(copies.values())
        edge = GradientEdge(node, place)
        found = [torch.autograd.grad(edge, wanted, g, retain_graph=True, allow_unused=True) for g in G]
        for copy, *parts in zip(wanted, *found, strict=True):
            if any(part is not None for part in parts):
                self._add(copy, torch.stack([torch.zeros_like(copy) if g is None else g for g in parts]))

    def _add(self, copy: Tensor, G: Tensor) -> None:
        before = self._found.get(id(copy))
        self._found[id(copy)] = G if before is None else before + G


def _by_number(index: Any) -> bool:
    """Whether an index is an integer, or several of them."""
    numbers = index if isinstance(index, tuple) else (index,)
    return all(isinstance(k, Integral) and not isinstance(k, bool) for k in numbers)


def _flat(args: Any, kwargs: Any) -> Iterator[Any]:
    for x in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(x, (list, tuple, dict)):
            yield from pytree.tree_leaves(x)
        else:
            yield x


def _split(x: Tensor, at: tuple[int, int], n: int) -> Float[Tensor, "n ..."]:
    """x with the rows of each example apart: a new first axis counts examples.

    >>> _split(torch.arange(6), (0, 1), 3)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    axis, inner = at
    parts = x.reshape(*x.shape[:axis], -1, n, inner, *x.shape[axis + 1 :]).movedim(axis + 1, 0)
    return parts.flatten(axis + 1, axis + 2)


def _stretched(x: Float[Tensor, "n ..."], shape: Shape) -> Float[Tensor, "n ..."]:
    """The sum of each example's part over the axes along which an input of this shape was stretched."""
    gone = x.dim() - 1 - len(shape)
    x = x.sum(dim=list(range(1, gone + 1))) if gone else x
    ones = [k + 1 for k, size in enumerate(shape) if size == 1 and x.shape[k + 1] != 1]
    return x.sum(dim=ones, keepdim=True) if ones else x


def _sums_to(G: Float[Tensor, "n ..."], total: Tensor) -> bool:
    size = torch.linalg.vector_norm(G.reshape(len(G), -1), dim=1).sum() + total.norm()
    return bool((G.sum(dim=0) - total).norm() <= same_output(G.dtype) * size) or not bool(torch.isfinite(size))
