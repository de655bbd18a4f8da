"""Mixing: ways in which an example's loss comes to depend on its batch, as source text. All of these must be refused.

In the core, `h` is the state (n, L, D) or (n, D); in the loss, `losses` are (n,) and `y` the model's output. A
condition may leave it to some batches: the first may show nothing.
"""

from __future__ import annotations

IN_CORE = {
    "batch mean": "h = h - h.mean(0, keepdim=True)",
    "batch mean, detached": "h = h - h.mean(0, keepdim=True).detach()",
    "largest of the batch": "h = h / h.detach().abs().max()",
    "neighbour": "h = h + 0.3 * h.roll(1, 0)",
    "neighbour, detached": "h = h + 0.3 * h.roll(1, 0).detach()",
    "running sum": "h = h + 0.1 * h.cumsum(0)",
    "attention over the batch": "h = (torch.softmax(h.flatten(1) @ h.flatten(1).T, 1) @ h.flatten(1)).view_as(h)",
    "sorted, not put back": "h = h[h.detach().flatten(1).sum(1).argsort()]",
    "place in the batch": "h = h * (1 + 0.1 * torch.arange(len(h)).view(-1, *[1] * (h.dim() - 1)))",
    "size of the batch": "h = h * (1 + 0.1 * len(h))",
    "only the first two": "h = torch.cat([h[:2].sin(), h[2:]])",
    "batch norm": "h = self.norm(h.flatten(0, -2)).view_as(h) if h.numel() > D else h",
}
IN_LOSS = {
    "divided by n": "losses = losses / len(losses)",
    "mean added": "losses = losses + losses.mean()",
    "baseline": "losses = losses * (1 + losses.detach() - losses.detach().mean())",
    "contrast": "losses = losses + 0.1 * torch.logsumexp(y.flatten(1) @ y.flatten(1).T, 1)",
    "flipped losses": "losses = losses.flip(0)",
    "rolled losses": "losses = losses.roll(1)",
    "sorted losses": "losses = losses[losses.detach().argsort()]",
    "shares of the batch": "losses = losses * torch.softmax(losses.detach(), 0)",
}
IN_LOOP = ("until all agree", "steps by size")
IN_STATE = {
    "counts its calls": "self.count = getattr(self, 'count', 0) + 1\nh = h * (1 + 0.1 * self.count)",
    "remembers a batch": "h, self.last = h + getattr(self, 'last', 0.0), h.detach().mean()",
}
MIXING = (*IN_CORE, *IN_LOSS, *IN_LOOP, *IN_STATE)

WHEN = {"always": "True", "n is k": "len({0}) == K", "a positive first": "float({0}[0].detach().sum()) > {1}"}
CONDITIONAL = (*IN_CORE, *IN_LOSS, "steps by size")  # those that can be left to some batches


def condition(when: str, of: str) -> str:
    """The expression that says whether a batch is mixed.

    >>> condition("n is k", "h")
    'len(h) == K'
    """
    return WHEN[when].format(of, "1" if of == "losses" else "0")
