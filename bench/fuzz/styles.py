"""Styles: how the core hands its state to a cell, as source text. `f` is the cell, `h` the state (n, L, D) or (n, D).

Each gives back what the cell would give on the whole state, or a sum over streams of it: no example sees another. What
changes is what the call looks like: rows packed, sorted, repeated, one example after the other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """expression: with f(...) for the call. before: a line that it needs.

    gives: "tokens" (m, L, D), "rows" (m, D), "any", or the "same" as the state.
    of: the states that it is for, "tokens", "vectors" or "both".
    """

    expression: str
    gives: str = "any"
    of: str = "both"
    before: str = ""

    def takes(self, shape: str, tokens: bool) -> bool:
        """Whether a cell of this shape can be called so, on a state with tokens or without."""
        if self.of not in ("both", "tokens" if tokens else "vectors"):
            return False
        gives = ("tokens" if tokens else "rows") if self.gives == "same" else self.gives
        return shape in ("any", gives)


MASK = "mask = torch.arange(h.shape[1]) < length[:, None]"
ORDER = "order = h.detach().flatten(1).sum(1).argsort()"
ON = "on = h.detach().flatten(1).sum(1) > 0"
STYLES: dict[str, Style] = {
    "whole": Style("f(h)", "same"),
    "flat": Style("f(h.flatten(0, 1)).view_as(h)", "rows", "tokens"),
    "each example": Style("torch.stack([f(x) for x in h])", "rows", "tokens"),
    "each vector": Style("torch.stack([f(x) for x in h])", "any", "vectors"),
    "each as a batch": Style("torch.cat([f(x[None]) for x in h])", "same"),
    "each, ragged": Style(
        "torch.stack([F.pad(f(x[:k]), (0, 0, 0, len(x) - k)) for x, k in zip(h, length.tolist())])", "rows", "tokens"
    ),
    "each token": Style("torch.stack([f(h[:, l]) for l in range(h.shape[1])], 1)", "rows", "tokens"),
    "time first": Style("f(h.transpose(0, 1)).transpose(0, 1)", "any", "tokens"),
    "packed": Style("torch.zeros_like(h).index_put((mask,), f(h[mask]))", "rows", "tokens", MASK),
    "packed block": Style("torch.zeros_like(h).index_put((mask,), f(h[mask][None])[0])", "any", "tokens", MASK),
    "streams": Style("f(torch.stack([h * c for c in SCALES])).mean(0)"),
    "stacked streams": Style("f(torch.cat([h * c for c in SCALES])).unflatten(0, (K, -1)).mean(0)", "same"),
    "options": Style("f(torch.stack([h * c for c in SCALES], 1).flatten(0, 1)).unflatten(0, (-1, K)).mean(1)", "same"),
    "options of each": Style(
        "torch.stack([f(torch.stack([x * c for c in SCALES])).mean(0) for x in h])", "rows", "vectors"
    ),
    "mirrored": Style("f(torch.cat([h, -h])).chunk(2)[0].sin()", "same"),
    "sorted and put back": Style("f(h[order])[order.argsort()]", "same", "both", ORDER),
    "flipped and put back": Style("f(h.flip(0)).flip(0)", "same"),
    "chunks": Style("torch.cat([f(x) for x in h.split(2)])", "same"),
    "padded batch": Style("f(torch.cat([h, torch.zeros_like(h[:1])]))[:-1]", "same"),
    "padded to four": Style(
        "f(torch.cat([h, torch.zeros_like(h[:1]).repeat(-len(h) % 4, *[1] * (h.dim() - 1))]))[: len(h)]", "same"
    ),
    "some": Style("(torch.zeros_like(h).index_put((on,), f(h[on])) if on.any() else 0)", "same", "both", ON),
    "axis after": Style("f(h[:, None])[:, 0]"),
    "axis before": Style("f(h[None])[0]"),
    "mean token": Style("f(h.mean(1, keepdim=True)).expand_as(h)", "tokens", "tokens"),
    "last token": Style("f(h[:, -1])[:, None]", "rows", "tokens"),
    "two calls": Style("f(h) * f(h.cos())", "same"),
    "by length": Style(
        "sum(torch.zeros_like(h).index_put((length == k,), F.pad(f(h[length == k][:, :k]), (0, 0, 0, h.shape[1] - k))) "
        "for k in sorted(set(length.tolist())))",
        "tokens",
        "tokens",
    ),
    "pairs of tokens": Style("f(h[:, :, None] * h[:, None]).mean(2)", "any", "tokens"),
}
# Those that give what the whole would give: such a call may be made in some batches and the whole in others.
EXACT = {
    *("whole", "flat", "each example", "each vector", "each as a batch", "each token", "time first", "chunks"),
    *("sorted and put back", "flipped and put back", "padded batch", "padded to four", "axis after", "axis before"),
}
