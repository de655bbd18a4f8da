"""RowProof: which examples the rows of every call belong to, proven from autograd's graph before a gradient is taken.

From the losses, one for each example, back through the graph, by the rules of `row_rules`. What is proven holds for
this batch whatever its sizes; where a rule is missing, or rows are moved by an index, nothing is claimed, and `owners`
finds out by values. Under recompute, the graph of a unit is there only when the backward pass comes by, and is followed
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from .row_rules import UNKNOWN, Block, Shape, locate, sources

OPAQUE = "_RecomputeBackward"  # its insides come later: `resume`


class RowProof:
    """The blocks (`row_rules`) of the tensors in autograd's graph of one pass, by node and output number."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._found: dict[Any, dict[int, Block]] = {}
        self._missing: dict[Any, int] = {}  # of each node, the edges into it that have not been followed

    def follow(self, roots: Sequence[tuple[Tensor, Block]]) -> tuple[list[Tensor], list[Any]]:
        """Follow the graph of these tensors, whose blocks are known. Returns the leaves where it begins, and its nodes.

        The nodes, and what hooks on them hold, are kept until they are forgotten.
        """
        leaves, nodes = self._count(roots)
        for y, block in roots:
            if y.grad_fn is not None:
                self._claim(y.grad_fn, y.output_nr, block)
        starts = {y.grad_fn for y, _ in roots if y.grad_fn is not None}
        for node in starts:
            self._missing[node] -= sum(y.grad_fn is node for y, _ in roots)
        self._walk([node for node in nodes if self._missing[node] == 0 and node in starts])
        return leaves, nodes

    def forget(self, nodes: Sequence[Any]) -> None:
        """Nothing more will be asked of these nodes."""
        for node in nodes:
            self._found.pop(node, None)
            self._missing.pop(node, None)

    def resume(self, node: Any, blocks: Sequence[Block]) -> None:
        """Go on above a node whose insides have been followed, with the blocks of its inputs."""
        self._walk(self._pass_on(node, blocks))

    def block_of(self, node: Any, place: int) -> Block:
        """The block of output number `place` of a node; UNKNOWN if it was not found."""
        return self._found.get(node, {}).get(place, UNKNOWN)

    def block_of_leaf(self, x: Tensor) -> Block:
        """The block of a leaf, a tensor where the graph begins."""
        return self.block_of(get_gradient_edge(x).node, 0)

    def reaches(self, node: Any) -> bool:
        """Whether the losses depend on a node, as far as was followed: not yet above a unit that is run again."""
        return node in self._found

    def shows(self, block: Block, shape: Shape, axis: int) -> bool:
        """Whether a tensor of this block holds example 0 first, then example 1, and so on, along an axis.

        Along the first axis, each may have several places in a row.
        """
        if axis == 0:
            return self.n * block == prod(shape) > 0
        return block > 0 and locate(shape, block, self.n) == (axis, 1) and shape[axis] == self.n

    def _count(self, roots: Sequence[tuple[Tensor, Block]]) -> tuple[list[Tensor], list[Any]]:
        leaves: dict[int, Tensor] = {}
        stack: list[Any] = []
        for y, _ in roots:
            if y.grad_fn is None:
                leaves[id(y)] = y
            else:
                self._missing[y.grad_fn] = self._missing.get(y.grad_fn, 0) + 1
                stack.append(y.grad_fn)
        nodes = dict.fromkeys(stack)
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if hasattr(node, "variable"):
                leaves[id(node.variable)] = node.variable
            for upstream, _ in node.next_functions:
                if upstream is not None:
                    self._missing[upstream] = self._missing.get(upstream, 0) + 1
                    if upstream not in nodes:
                        nodes[upstream] = None
                        stack.append(upstream)
        return list(leaves.values()), list(nodes)

    def _walk(self, ready: list[Any]) -> None:
        while ready:
            node = ready.pop()
            edges = node.next_functions
            if not edges or type(node).__name__ == OPAQUE:
                continue
            ready += self._pass_on(node, self._sources(node, edges))

    def _sources(self, node: Any, edges: Any) -> list[Block]:
        own = self._found.get(node, {})
        outs = _shapes(node)
        ins = [() if upstream is None else _shapes(upstream)[place] for upstream, place in edges]
        return sources(node, [own.get(k) for k in range(len(outs))], outs, ins, self.n)

    def _pass_on(self, node: Any, blocks: Sequence[Block]) -> list[Any]:
        ready = []
        for (upstream, place), block in zip(node.next_functions, blocks, strict=True):
            if upstream is None:
                continue
            self._claim(upstream, place, block)
            self._missing[upstream] -= 1
            if self._missing[upstream] == 0:
                ready.append(upstream)
        return ready

    def _claim(self, node: Any, place: int, block: Block) -> None:
        own = self._found.setdefault(node, {})
        own[place] = block if own.get(place, block) == block else UNKNOWN


def _shapes(node: Any) -> list[Shape]:
    return [tuple(part.shape) for part in node._input_metadata]
