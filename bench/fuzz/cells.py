"""Cells: the modules that a drawn body is made of, as source text. D is the width of the state, K a small number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """make: the expression that makes one. source: its class, where torch has none.

    shape: the inputs it takes: "any" (..., D); "rows" (r, D); "tokens" (n, L, D), whose tokens it mixes.
    """

    make: str
    shape: str = "any"
    source: str = ""

    @property
    def ties(self) -> bool:
        """Whether it has a Linear(D, D) of its own, whose weight another may share."""
        return "self.inner = nn.Linear(D, D)\n" in self.source


def _own(name: str, parts: str, result: str, shape: str = "any") -> Cell:
    """A class with these statements in __init__ and forward."""
    body = "".join(f"        {line}\n" for line in parts.strip().split("\n"))
    forward = "".join(f"        {line}\n" for line in result.strip().split("\n"))
    source = (
        f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n{body}\n"
        f"    def forward(self, x):\n{forward}"
    )
    return Cell(f"{name}()", shape, source)


INNER = "self.inner = nn.Linear(D, D)"
EXPERTS = """
rows = x.reshape(-1, D)
which = (rows @ self.router).argmax(-1)
out = torch.zeros_like(rows)
for k, expert in enumerate(self.experts):
    if (which == k).any():
        out = out.index_put((which == k,), expert(rows[which == k]))
return out.view_as(x)
"""
SCAN = """
s, out = torch.zeros_like(x[:, 0]), []
for l in range(x.shape[1]):
    s = torch.tanh(self.inner(x[:, l]) + self.state(s))
    out.append(s)
return torch.stack(out, 1)
"""
ATTENTION = """
w = torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2), -1)
return self.o(w @ self.v(x))
"""
CELLS: dict[str, Cell] = {
    "linear": Cell("nn.Linear(D, D)"),
    "mlp": Cell("nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D, bias=False))"),
    "layer norm": Cell("nn.LayerNorm(D)"),
    "rms norm": Cell("nn.RMSNorm(D)"),
    "bilinear": _own("Bilinear", "self.inner = nn.Bilinear(D, D, D)", "return self.inner(x, torch.tanh(x))"),
    "gated": _own("Gated", INNER + "\nself.b = nn.Linear(D, D)", "return self.inner(x) * torch.sigmoid(self.b(x))"),
    "gate": _own("Gate", "self.gate = nn.Parameter(torch.zeros(D))", "return x * self.gate"),
    "matrix": _own("Matrix", "self.w = nn.Parameter(torch.zeros(D, D))", "return x @ self.w"),
    "scalar": _own("Scalar", "self.s = nn.Parameter(torch.zeros(()))", "return x.sin() * self.s"),
    "composite": _own(
        "Composite", INNER + "\nself.scale = nn.Parameter(torch.zeros(D))", "return self.scale * self.inner(x)"
    ),
    "low rank": _own(
        "LowRank",
        INNER + "\nself.a = nn.Parameter(torch.zeros(D, 2))\nself.b = nn.Parameter(torch.zeros(2, D))",
        "return self.inner(x) + x @ self.a @ self.b",
    ),
    "conv1d of hf": Cell(
        "Conv1D(D, D)",
        "any",
        "class Conv1D(nn.Module):\n    def __init__(self, nf, nx):\n        super().__init__()\n        self.nf = nf\n"
        "        self.weight = nn.Parameter(torch.zeros(nx, nf))\n        self.bias = nn.Parameter(torch.zeros(nf))\n\n"
        "    def forward(self, x):\n        flat = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)\n"
        "        return flat.view(*x.shape[:-1], self.nf)\n",
    ),
    "table": _own(
        "Table",
        "self.table = nn.Embedding(4, D)",
        "return self.table((x.detach().sum(-1).abs() * 7).long() % 4) * x.cos()",
    ),
    "experts": _own(
        "Experts",
        "self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(2))\n"
        'self.register_buffer("router", torch.linspace(-1, 1, 2 * D).view(D, 2).sin())',
        EXPERTS,
    ),
    "mixture": _own(
        "Mixture",
        "self.router = nn.Linear(D, 2)\nself.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(2))",
        "w = torch.softmax(self.router(x), -1)\n"
        "return sum(w[..., k : k + 1] * expert(x) for k, expert in enumerate(self.experts))",
    ),
    "weight norm": Cell("torch.nn.utils.parametrizations.weight_norm(nn.Linear(D, D))"),
    "parameter list": _own(
        "Listed",
        "self.ws = nn.ParameterList([torch.zeros(D, D), torch.zeros(D)])",
        "return torch.sin(x @ self.ws[0]) * self.ws[1]",
    ),
    "functional": _own("Functional", INNER, "return F.linear(x, self.inner.weight, self.inner.bias)"),
    "called and functional": _own("Both", INNER, "return torch.sin(self.inner(x)) @ self.inner.weight"),
    "in place": _own("InPlace", INNER, "y = self.inner(x)\ny += x\nreturn y.tanh_()"),
    "two outputs": _own(
        "TwoOutputs",
        "self.pair = Pair()",
        "a, b = self.pair(x)\nreturn torch.tanh(a) + b * x",
    ),
    "keyword": _own("Keyword", INNER, "return self.inner(input=x)"),
    "hyper": _own("Hyper", INNER, "return x @ self.inner(torch.eye(D, dtype=x.dtype))"),
    "constant": _own("Constant", INNER, "return x * self.inner(torch.ones(D, dtype=x.dtype))"),
    "cast": _own("Cast", INNER, "return self.inner(x.float()).to(x.dtype)"),
    "checkpointed": _own("Checkpointed", INNER, "return checkpoint(self.inner, x, use_reentrant=False)"),
    "slope": _own(
        "Slope",
        INNER,
        "with torch.enable_grad():\n    s = x.detach().requires_grad_()\n"
        "    (slope,) = torch.autograd.grad(self.inner(s).square().sum(), s)\n"
        "return self.inner(x) + 0.1 * slope.detach()",
    ),
    "gru cell": _own("Cell", "self.inner = nn.GRUCell(D, D)", "return self.inner(x, torch.tanh(x))", "rows"),
    "attention": _own(
        "Attention", "self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))", ATTENTION, "tokens"
    ),
    "torch attention": _own(
        "TorchAttention",
        "self.inner = nn.MultiheadAttention(D, 2 - D % 2, batch_first=True)",
        "return self.inner(x, x, x, need_weights=False)[0]",
        "tokens",
    ),
    "encoder": Cell("nn.TransformerEncoderLayer(D, 1, 2 * D, dropout=0.0, batch_first=True)", "tokens"),
    "conv": _own(
        "Conv",
        "self.inner = nn.Conv1d(D, D, 3, padding=1)",
        "return self.inner(x.transpose(1, 2)).transpose(1, 2)",
        "tokens",
    ),
    "depthwise": _own(
        "Depthwise",
        "self.inner = nn.Conv1d(D, D, 3, padding=1, groups=D)",
        "return self.inner(x.transpose(1, 2)).transpose(1, 2)",
        "tokens",
    ),
    "group norm": _own(
        "Grouped", "self.inner = nn.GroupNorm(1, D)", "return self.inner(x.transpose(1, 2)).transpose(1, 2)", "tokens"
    ),
    "gru": _own("Recurrent", "self.inner = nn.GRU(D, D, batch_first=True)", "return self.inner(x)[0]", "tokens"),
    "scan": _own("Scan", INNER + "\nself.state = nn.Linear(D, D)", SCAN, "tokens"),
    "mixer": _own(
        "Mixer",
        "self.inner = nn.Linear(5, 5)",
        "y = F.pad(x, (0, 0, 0, 5 - x.shape[1])).transpose(1, 2)\n"
        "return self.inner(y).transpose(1, 2)[:, : x.shape[1]]",
        "tokens",
    ),
    "positions": _own(
        "Positions",
        INNER + '\nself.register_buffer("places", torch.linspace(-1, 1, 5 * D).view(5, D).cos())',
        "return x * self.inner(self.places[: x.shape[1]])",
        "tokens",
    ),
    "memory tokens": _own(
        "Memory",
        INNER + "\nself.memory = nn.Parameter(torch.zeros(2, D))",
        "y = self.inner(torch.cat([self.memory.expand(len(x), 2, D), x], 1))\n"
        "return y[:, 2:] * y[:, :2].mean(1, keepdim=True)",
        "tokens",
    ),
}
PAIR = (
    "class Pair(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.u, self.w = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D, D))\n\n"
    "    def forward(self, x):\n        return x * self.u, x @ self.w\n"
)
HELPERS = {"two outputs": PAIR}  # classes that a cell's own needs
