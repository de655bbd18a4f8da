"""Which examples an operation's outputs depend on, given those of its inputs: one rule for each kind of operation.

Where the examples are in a tensor is a pair (axis, inner): place i along the axis belongs to example (i // inner) % n.
A rule answers with such a pair for each output, or MIXED, where an output may depend on several examples, or on an
example's place in the batch. An operation without a rule is MIXED. Rules look at shapes, axes and kinds, never at sizes
that might coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

Shape = tuple[int, ...]
At = tuple[int, int]
MIXED: Literal["mixed"] = "mixed"
Answer = At | Literal["mixed"]


@dataclass(frozen=True)
class Operand:
    """A tensor that goes in or comes out.

    at: where its examples are; None for a constant. uniform: a constant whose entries are equal. counts: the constant
    0, 1, ..., n - 1.
    """

    shape: Shape
    stride: Shape
    at: At | None = None
    uniform: bool = False
    is_mask: bool = False
    counts: bool = False

    def same_for_all(self, axis: int, dims: int) -> bool:
        """Whether it does not change along an axis of what it is broadcast to, which has `dims` axes."""
        own = axis - (dims - len(self.shape))
        return self.uniform or own < 0 or self.shape[own] == 1 or self.stride[own] == 0


class Op:
    """An operation: its arguments by name, tensors as Operands, and its outputs."""

    def __init__(self, arguments: Mapping[str, Any], outs: Sequence[Operand]) -> None:
        self.arguments, self.outs = arguments, outs
        self.operands = [x for value in arguments.values() for x in _operands(value)]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def axes(self, dims: int, *names: str) -> set[int]:
        """The axes that an argument names; all of them where it names none."""
        value = next((self.arguments[name] for name in names if name in self.arguments), None)
        each = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
        return {axis % dims for axis in each} if each and dims else set(range(dims))


def _operands(value: Any) -> list[Operand]:
    if isinstance(value, Operand):
        return [value]
    return [x for x in value if isinstance(x, Operand)] if isinstance(value, (list, tuple)) else []


Rule = Callable[[Op], "Answer | list[Answer]"]


def broadcast(op: Op, operands: Sequence[Operand] | None = None, out: Operand | None = None) -> Answer:
    """Entry by entry: all inputs have their examples along one axis of the output."""
    out = out or op.outs[0]
    operands = op.operands if operands is None else operands
    dims = len(out.shape)
    found = {(x.at[0] + dims - len(x.shape), x.at[1]) for x in operands if x.at is not None}
    if len(found) != 1:
        return MIXED
    (at,) = found
    for x in operands:
        own = at[0] - (dims - len(x.shape))
        if x.at is not None and x.shape[own] != out.shape[at[0]]:
            return MIXED
        if x.at is None and not x.same_for_all(at[0], dims):
            return MIXED  # a constant that differs from place to place
    return at


def _copied(op: Op) -> Answer:
    return broadcast(op, [op["src"]])


def _not_reduced(op: Op) -> Answer:
    """A loss of every entry."""
    return broadcast(op) if op["reduction"] == 0 else MIXED


def _reduced(op: Op) -> list[Answer]:
    x = op.operands[0]
    gone = op.axes(len(x.shape), "dim", "axis")
    if len(op.operands) != 1 or x.at is None or x.at[0] in gone:
        return [MIXED] * len(op.outs)
    kept = len(op.outs[0].shape) == len(x.shape)
    return [(x.at[0] if kept else sum(a not in gone for a in range(x.at[0])), x.at[1])] * len(op.outs)


def _along(op: Op) -> list[Answer]:
    """Places along the named axes depend on one another; those along the others do not."""
    x = op.operands[0]
    if len(op.operands) != 1 or x.at is None or x.at[0] in op.axes(len(x.shape), "dim", "dims"):
        return [MIXED] * len(op.outs)
    return [x.at] * len(op.outs)


def _triangle(op: Op) -> Answer:
    x = op.operands[0]
    return x.at if x.at is not None and x.at[0] < len(x.shape) - 2 else MIXED


def _matrix_product(op: Op) -> Answer:
    """(r, k) @ (k, c), (b, r, k) @ (b, k, c), (r, k) @ (k,), and what is added to it."""
    *added, left, right = op.operands
    out, batched = op.outs[0], len(left.shape) == 3
    found: Answer
    if left.at is not None and right.at is not None:
        found = left.at if batched and left.at == right.at and left.at[0] == 0 else MIXED
    elif left.at is not None:
        shared = not batched or left.at[0] != 0 or right.same_for_all(0, 3)
        found = left.at if left.at[0] < len(left.shape) - 1 and shared else MIXED
    elif right.at is not None:
        axis = right.at[0]
        contracted = axis == len(right.shape) - 2 or len(right.shape) == 1
        shared = not batched or axis != 0 or left.same_for_all(0, 3)
        found = MIXED if contracted or not shared else (axis, right.at[1])
    else:
        return broadcast(op, [*added, out])
    if found == MIXED or not added:
        return found
    return broadcast(op, [*added, Operand(out.shape, out.stride, found)])


def _normalised(op: Op) -> list[Answer]:
    """Layer norm: over the last axes, then statistics with these axes of size 1."""
    x, axes = op["input"], len(op["normalized_shape"])
    rest = [w for w in op.operands if w is not x]
    good = x.at is not None and x.at[0] < len(x.shape) - axes and all(w.at is None for w in rest)
    return [x.at if good else MIXED] * len(op.outs)


def _examples_first(op: Op) -> list[Answer]:
    """Convolutions and group norm: examples along the first axis; nothing else depends on them."""
    x = op.operands[0]
    good = x.at == (0, 1) and all(w.at is None for w in op.operands[1:])
    return [(0, 1) if good and y.shape[:1] == x.shape[:1] else MIXED for y in op.outs]


def _batch_norm(op: Op) -> list[Answer]:
    x = op["input"]
    training = op.arguments.get("training", False)
    good = x.at is not None and x.at[0] != 1 and not training and all(w.at is None for w in op.operands[1:])
    return [x.at if good else MIXED, *[MIXED] * (len(op.outs) - 1)]


def _attention(op: Op) -> list[Answer]:
    """(examples, heads, tokens, d): tokens depend on one another; a mask is broadcast to (examples, heads, ...)."""
    q, k, v = op["query"], op["key"], op["value"]
    mask = op.arguments.get("attn_mask") or op.arguments.get("attn_bias")
    at = q.at
    good = at is not None and at[0] < len(q.shape) - 2 and k.at == at == v.at
    if good and mask is not None and at is not None:
        scores = Operand((*q.shape[:-1], k.shape[-2]), (), at)
        good = broadcast(op, [scores, mask], scores) == at
    return [at if good and at is not None else MIXED, *[MIXED] * (len(op.outs) - 1)]


def _looked_up(op: Op) -> Answer:
    """embedding: rows of a table by index."""
    index = op["indices"]
    return index.at if op["weight"].at is None and index.at is not None else MIXED


def _joined(op: Op) -> Answer:
    """cat: along another axis than that of the examples."""
    out = op.outs[0]
    parts = [x for x in op["tensors"] if x.shape != (0,)]
    axis = op.arguments.get("dim", 0) % len(out.shape)
    found = {x.at for x in parts if x.at is not None}
    if len(found) != 1:
        return MIXED
    (at,) = found
    constant = all(x.same_for_all(at[0], len(out.shape)) for x in parts if x.at is None)
    return MIXED if at[0] == axis or not constant else at


def _stacked(op: Op) -> Answer:
    out = op.outs[0]
    axis = op.arguments.get("dim", 0) % len(out.shape)
    found = {x.at for x in op["tensors"] if x.at is not None}
    if len(found) != 1:
        return MIXED
    (at,) = found
    if not all(x.same_for_all(at[0], len(x.shape)) for x in op["tensors"] if x.at is None):
        return MIXED
    return at[0] + (at[0] >= axis), at[1]


def _padded(op: Op) -> Answer:
    x = op.operands[0]
    return x.at if x.at is not None and x.shape[x.at[0]] == op.outs[0].shape[x.at[0]] else MIXED


def _repeated(op: Op) -> Answer:
    x, times = op.operands[0], list(op["repeats"])
    if x.at is None:
        return MIXED
    axis = x.at[0] + len(times) - len(x.shape)
    return (axis, x.at[1]) if times[axis] == 1 else MIXED


def _along_index(op: Op) -> Answer:
    """gather, scatter: places along one axis by an index of the same axes."""
    same = [x for x in op.operands if len(x.shape) == len(op.outs[0].shape)]
    dims = len(op.outs[0].shape)
    found = {x.at for x in same if x.at is not None}
    if len(found) != 1 or len(same) != len(op.operands):
        return MIXED
    (at,) = found
    if at[0] == op["dim"] % dims or any(x.shape[at[0]] != op.outs[0].shape[at[0]] for x in same):
        return MIXED
    return at if all(x.same_for_all(at[0], dims) for x in same if x.at is None) else MIXED


def _index_select(op: Op) -> Answer:
    x, index = op["self"], op["index"]
    return x.at if x.at is not None and index.at is None and x.at[0] != op["dim"] % len(x.shape) else MIXED


def _indexed(op: Op) -> Answer:
    """x[i, j] with tensors: a table by each example's own index, or other axes than the examples' by one for all."""
    x, out, indices = op["self"], op.outs[0], list(op["indices"])
    given = [(k, i) for k, i in enumerate(indices) if i is not None]
    if any(i.is_mask for _, i in given):
        return MIXED
    together = [k for k, _ in given] == list(range(given[0][0], given[-1][0] + 1))
    if not together:
        return MIXED
    first, dims = given[0][0], max(len(i.shape) for _, i in given)
    if x.at is None:
        shape = out.shape[first : first + dims]
        at = broadcast(op, [i for _, i in given], Operand(shape, ()))
        return MIXED if at == MIXED else (at[0] + first, at[1])
    if x.at == (0, 1) and given[0][0] == 0 and given[0][1].counts:  # x[arange(n), i]: each example's own places
        own = all(i.at == (0, 1) or i.same_for_all(0, 1) for _, i in given[1:])
        return (0, 1) if own and dims == 1 else MIXED
    if any(i.at is not None for _, i in given) or x.at[0] in {k for k, _ in given}:
        return MIXED
    return x.at if x.at[0] < first else (x.at[0] - len(given) + dims, x.at[1])


def _loss_of_classes(op: Op) -> list[Answer]:
    """nll_loss of every entry: (n, C, ...) and (n, ...) -> (n, ...)."""
    x, target = op["self"], op["target"]
    good = op["reduction"] == 0 and x.at == target.at and x.at is not None and x.at[0] == 0 and op["weight"] is None
    return [x.at if good and x.at is not None else MIXED, *[MIXED] * (len(op.outs) - 1)]


_NAMES = """
    zeros ones full empty empty_strided scalar_tensor zeros_like ones_like full_like empty_like new_zeros new_ones
    new_full new_empty new_empty_strided fill fill_ zero zero_
"""
UNIFORM = frozenset(_NAMES.split())  # constants of equal entries, unless a tensor says which; "empty" is written over
KEEP_EQUAL: tuple[Rule, ...] = (broadcast, _copied, _reduced, _matrix_product)  # equal entries, if all of theirs are
_NAMES = """
    _local_scalar_dense equal is_nonzero nonzero nonzero_static masked_select _unique _unique2 unique_dim
    unique_consecutive unique_dim_consecutive bincount
"""
ESCAPES = frozenset(_NAMES.split())  # what Python gets to see: numbers, or sizes that depend on values
_KINDS: tuple[tuple[Rule, str], ...] = (
    (broadcast, "_to_copy _prelu_kernel log_sigmoid_forward nan_to_num masked_fill masked_fill_ where bucketize"),
    (_copied, "copy copy_"),
    (
        _not_reduced,
        "mse_loss binary_cross_entropy binary_cross_entropy_with_logits huber_loss smooth_l1_loss soft_margin_loss",
    ),
    (
        _reduced,
        "sum mean amax amin max min argmax argmin logsumexp linalg_vector_norm norm std var prod any all median nansum "
        "count_nonzero nanmedian mode var_mean std_mean aminmax kthvalue",
    ),
    (
        _along,
        "_softmax _log_softmax cumsum cumprod cummax cummin logcumsumexp sort argsort topk glu flip roll _safe_softmax",
    ),
    (_triangle, "tril triu"),
    (_matrix_product, "mm addmm bmm baddbmm mv addmv"),
    (_normalised, "native_layer_norm _fused_rms_norm"),
    (_examples_first, "convolution mkldnn_convolution _convolution native_group_norm"),
    (_batch_norm, "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm"),
    (
        _attention,
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
        "_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps "
        "_scaled_dot_product_fused_attention_overrideable",
    ),
    (_looked_up, "embedding"),
    (_joined, "cat"),
    (_stacked, "stack"),
    (_padded, "constant_pad_nd reflection_pad1d replication_pad1d"),
    (_repeated, "repeat"),
    (_along_index, "gather scatter scatter_ scatter_add scatter_add_"),
    (_index_select, "index_select"),
    (_indexed, "index _unsafe_index"),
    (_loss_of_classes, "nll_loss_forward nll_loss2d_forward"),
)
RULES: dict[str, Rule] = {name: rule for rule, names in _KINDS for name in names.split()}


def rule_of(func: Any) -> Rule | None:
    """The rule of an operation of torch.ops.aten."""
    if torch.Tag.pointwise in getattr(func, "tags", ()):
        return broadcast
    return RULES.get(getattr(getattr(func, "_schema", None), "name", "").rpartition("::")[2])
