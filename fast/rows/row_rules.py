"""Whose rows an operation's inputs are, given whose its outputs are: one rule for each node of autograd's graph.

Where the examples are in a tensor of n examples is one number, its *block*: entry k of the flattened tensor belongs to
example (k // block) % n. A reshape keeps it; so (n, L, d), (n * L, d) and (1, n * L, d) all have block L * d. A tensor
that all examples share is SHARED. What no rule covers is UNKNOWN, never guessed: rules look at the kind of a node, at
shapes, and at the axes that it saved, not at sizes that might coincide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import torch

Shape = tuple[int, ...]
Block = int
SHARED, UNKNOWN = 0, -1

ELEMENTWISE = """
    Abs Acos Add Addcdiv Addcmul Alias Asin Atan Atan2 BinaryCrossEntropy BinaryCrossEntropyWithLogits Celu Clamp
    ClampMax ClampMin Clone Conj ConjPhysical Copy CopyBackwards Cos Cosh Detach Div Elu Erf Exp Expm1 Fmod Frac Gelu
    Hardsigmoid Hardswish Hardtanh HuberLoss LeakyRelu Lerp LiftFresh Log Log1p Log2 LogSigmoid Logaddexp Logit
    MaskedFill Maximum Minimum Mish MseLoss Mul NanToNum NativeDropout Neg Pow Prelu Reciprocal Relu Rsqrt Rsub Sgn
    Sigmoid Sign Silu Sin Sinh SmoothL1Loss SoftMarginLoss Softplus Softshrink Sqrt Square Sub Tan Tanh
    Threshold ToCopy Trunc Where Xlogy
""".split()  # noqa: SIM905
RESHAPES = ("View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Flatten")
ALONG = (
    "Softmax",
    "SafeSoftmax",
    "LogSoftmax",
    "Cumsum",
    "Cumprod",
    "Logcumsumexp",
    "Glu",
    "Sort",
    "Topk",
)  # one axis, "dim"
REDUCTIONS = (
    "Sum",
    "Mean",
    "Amax",
    "Amin",
    "Max",
    "Min",
    "Logsumexp",
    "LinalgVectorNorm",
    "Norm",
    "Std",
    "Var",
    "Prod",
)
ATTENTION = re.compile(r"ScaledDotProduct.*Attention.*")


def locate(shape: Shape, block: Block, n: int) -> tuple[int, int] | None:
    """The axis that examples are counted along, and how many of its places in a row are one example's.

    >>> locate((3, 5, 4), 20, 3), locate((15, 4), 20, 3), locate((2, 3, 4), 4, 3)
    ((0, 1), (0, 5), (1, 1))
    """
    after = 1
    for axis in reversed(range(len(shape))):
        if block % after == 0 and (after * shape[axis]) % (block * n) == 0:
            return axis, block // after
        after *= shape[axis]
    return None


def at_axis(shape: Shape, axis: int, inner: int) -> Block:
    """The block of a tensor whose examples are counted along an axis."""
    return inner * prod(shape[axis + 1 :])


def kind_of(node: Any) -> str:
    """The operation of a node of autograd's graph, without the ending that tells its overloads apart.

    >>> kind_of(torch.ones(2, requires_grad=True).exp().grad_fn)
    'Exp'
    """
    return _without_ending(node.name())


@cache
def _without_ending(name: str) -> str:
    return re.sub(r"Backward\d*$", "", name.rpartition("::")[2])


def sources(
    node: Any, blocks: Sequence[Block | None], outs: Sequence[Shape], ins: Sequence[Shape], n: int
) -> list[Block]:
    """The block of each input of a node, from those of its outputs; None for an output that has no gradient."""
    known = {(block, shape) for block, shape in zip(blocks, outs, strict=False) if block is not None}
    if not known or any(block == UNKNOWN for block, _ in known):
        return [UNKNOWN] * len(ins)
    if all(block == SHARED for block, _ in known):
        return [SHARED] * len(ins)
    kind = kind_of(node)
    rule: Rule | None = RULES.get(kind) or (_attention if ATTENTION.fullmatch(kind) else None)
    if rule is None:
        return [UNKNOWN] * len(ins)
    found: list[set[Block]] = [set() for _ in ins]
    for block, shape in known:
        at = None if block == SHARED else locate(shape, block, n)
        if block != SHARED and at is None and kind not in RESHAPES:
            return [UNKNOWN] * len(ins)
        try:
            parts = [SHARED] * len(ins) if block == SHARED else rule(node, block, at, shape, ins)
        except (AttributeError, IndexError, TypeError, ValueError):  # another version of PyTorch saves other things
            return [UNKNOWN] * len(ins)
        for one, part in zip(found, parts, strict=True):
            one.add(part)
    return [one.pop() if len(one) == 1 else UNKNOWN for one in found]


Rule = Callable[[Any, Block, Any, Shape, Sequence[Shape]], list[Block]]


def _broadcast(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    return [_aligned(at, shape, other) for other in ins]


def _aligned(at: tuple[int, int], shape: Shape, other: Shape) -> Block:
    """An input that is stretched over the examples is shared by them."""
    axis = at[0] - (len(shape) - len(other))
    if axis < 0 or (other[axis] == 1 and shape[at[0]] != 1):
        return SHARED
    return at_axis(other, axis, at[1]) if other[axis] == shape[at[0]] else UNKNOWN


def _reshape(node: Any, block: Block, at: Any, shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    return [block if prod(other) == prod(shape) else UNKNOWN for other in ins]


def _moved(axes: Callable[[Any, int], Sequence[int]]) -> Rule:
    """Axes in another order: `axes` gives, for each axis of the output, that of the input."""

    def rule(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
        return [at_axis(ins[0], axes(node, len(shape))[at[0]], at[1])]

    return rule


def _transposed(node: Any, dims: int) -> list[int]:
    out = list(range(dims))
    a, b = (_axis(getattr(node, name), dims) for name in ("_saved_dim0", "_saved_dim1"))
    out[a], out[b] = out[b], out[a]
    return out


def _permuted(node: Any, dims: int) -> list[int]:
    return [_axis(d, dims) for d in node._saved_dims]


def _product(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """out[..., r, c] = sum_k a[..., r, k] b[..., k, c], after what is added to it."""
    *added, left, right = ins
    axis, inner = at
    last = len(shape) - 1
    pair = [
        SHARED if axis == last else at_axis(left, axis, inner),
        SHARED if axis == last - 1 else at_axis(right, axis, inner),
    ]
    return [*(_aligned(at, shape, other) for other in added), *pair]


def _along(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """Places along one axis depend on one another; those along the others do not."""
    return [UNKNOWN if at[0] in _dims(node, len(shape)) else _aligned(at, shape, other) for other in ins]


def _reduced(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """sum, mean and the like: the output lacks the axes that were reduced, or has them with size 1."""
    source = ins[0]
    gone = _dims(node, len(source))
    if len(shape) == len(source):  # the axes are kept
        return [UNKNOWN if at[0] in gone else at_axis(source, at[0], at[1])]
    left = [axis for axis in range(len(source)) if axis not in gone]
    return [at_axis(source, left[at[0]], at[1]) if len(left) == len(shape) else UNKNOWN]


def _normalised(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """LayerNorm and RMSNorm: over the last axes, of which the weights have as many."""
    axes = len(node._saved_normalized_shape)
    first = UNKNOWN if at[0] >= len(shape) - axes or ins[0] != shape else at_axis(ins[0], *at)
    return [first, *[SHARED] * (len(ins) - 1)]


def _group_norm(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    return [at_axis(ins[0], *at) if at[0] == 0 and ins[0] == shape else UNKNOWN, *[SHARED] * (len(ins) - 1)]


def _batch_norm(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    if node._saved_training or at[0] == 1:
        return [UNKNOWN] * len(ins)
    return [at_axis(ins[0], *at), *[SHARED] * (len(ins) - 1)]


def _convolved(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    first = at_axis(ins[0], 0, at[1]) if at[0] == 0 and ins[0][0] == shape[0] else UNKNOWN
    return [first, *[SHARED] * (len(ins) - 1)]


def _joined(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """cat: along another axis than that of the examples."""
    if at[0] in _dims(node, len(shape)):
        return [UNKNOWN] * len(ins)
    return [at_axis(other, *at) if len(other) == len(shape) else UNKNOWN for other in ins]


def _stacked(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    (dim,) = _dims(node, len(shape))
    return [UNKNOWN if at[0] == dim else at_axis(other, at[0] - (at[0] > dim), at[1]) for other in ins]


def _sliced(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """slice, split, narrow, pad: a part along one axis; all of the examples, or none is known."""
    source = ins[0]
    whole = len(source) == len(shape) and source[at[0]] == shape[at[0]]
    return [at_axis(source, *at) if whole and at[0] not in _dims(node, len(shape), "dim") else UNKNOWN]


def _padded(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    return [at_axis(ins[0], *at) if ins[0][at[0]] == shape[at[0]] else UNKNOWN]


def _selected(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """select, unbind: one place of an axis that the output lacks."""
    (dim,) = _dims(node, len(ins[0]))
    return [at_axis(ins[0], at[0] + (at[0] >= dim), at[1])]


def _gathered(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """gather, index_select: places along one axis chosen by an index."""
    other = ins[0]
    kept = len(other) == len(shape) and at[0] not in _dims(node, len(shape)) and other[at[0]] == shape[at[0]]
    return [at_axis(other, *at) if kept else UNKNOWN, *[UNKNOWN] * (len(ins) - 1)]


def _indexed(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """x[i] with tensors: examples first, and either not indexed or each its own, x[arange(n), i]."""
    indices, source = list(node._saved_indices), ins[0]
    if at[0] != 0 or source[0] != shape[0]:
        return [UNKNOWN]
    if indices and indices[0] is not None:
        first = indices[0]
        own = first.dim() == 1 and first.dtype == torch.long
        if not own or not torch.equal(first, torch.arange(source[0], device=first.device)):
            return [UNKNOWN]
        if any(i is not None and (i.dim() != 1 or i.dtype != torch.long) for i in indices):
            return [UNKNOWN]
        if None in indices[: max(k for k, i in enumerate(indices) if i is not None)]:
            return [UNKNOWN]
    else:
        used = [k for k, i in enumerate(indices) if i is not None]
        if not used or used != list(range(used[0], used[-1] + 1)):  # apart, their axes would come first
            return [UNKNOWN]
    return [at_axis(source, 0, at[1])]


def _loss_of_classes(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """nll_loss: (n, C, ...) -> (n, ...)."""
    return [at_axis(ins[0], 0, at[1]) if at[0] == 0 and ins[0][0] == shape[0] else UNKNOWN, *[SHARED] * (len(ins) - 1)]


def _attention(node: Any, block: Block, at: tuple[int, int], shape: Shape, ins: Sequence[Shape]) -> list[Block]:
    """(examples, heads, tokens, d): tokens depend on one another. A mask that is learned is not followed."""
    good = at[0] < len(shape) - 2
    return [
        at_axis(other, *at) if good and len(other) == len(shape) and other[at[0]] == shape[at[0]] and k < 3 else UNKNOWN
        for k, other in enumerate(ins)
    ]


def _dims(node: Any, dims: int, name: str = "dim") -> set[int]:
    saved = getattr(node, f"_saved_{name}", None)
    if saved is None:  # all of them
        return set(range(dims))
    each = saved if isinstance(saved, (tuple, list)) else (saved,)
    return {_axis(d, dims) for d in each} if each else set(range(dims))


def _axis(saved: int, dims: int) -> int:
    """An axis as autograd saves it: without a sign, so that -1 is 2^64 - 1."""
    axis = saved - (1 << 64) if saved >= 1 << 63 else saved
    return axis % dims if dims else 0


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _broadcast),
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(REDUCTIONS, _reduced),
    "Expand": _broadcast,
    "Transpose": _moved(_transposed),
    "T": _moved(lambda node, dims: list(reversed(range(dims)))),
    "Permute": _moved(_permuted),
    **dict.fromkeys(("Mm", "Addmm", "Bmm", "Baddbmm"), _product),
    **dict.fromkeys(("NativeLayerNorm", "FusedRmsNorm"), _normalised),
    "NativeGroupNorm": _group_norm,
    **dict.fromkeys(("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"), _batch_norm),
    **dict.fromkeys(("Convolution", "MkldnnConvolution"), _convolved),
    "Cat": _joined,
    "Stack": _stacked,
    **dict.fromkeys(("Slice", "Split", "SplitWithSizes", "Narrow", "UnsafeSplit"), _sliced),
    "ConstantPadNd": _padded,
    **dict.fromkeys(("Select", "Unbind"), _selected),
    **dict.fromkeys(("Gather", "IndexSelect"), _gathered),
    "Index": _indexed,
    **dict.fromkeys(("NllLoss", "NllLoss2D"), _loss_of_classes),
}
