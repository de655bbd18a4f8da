"""write_model: a Description as source text: the model, its loss, its batches and its loop.

The text is what runs, in the engine as in the oracle, and what a saved script shows. `Model.at(t)` does nothing: it
says where step t begins (None: outside of all), and the oracle puts something else in its place.
"""

from __future__ import annotations

import re

from .cells import CELLS, HELPERS
from .description import Description
from .mixing import IN_CORE, IN_LOSS, IN_STATE, condition
from .styles import STYLES
from .write_loop import PACK, write_loop

HEAD = """import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
"""
AT = "    def at(self, t):\n        pass\n\n"
BY_NAME = {  # parameters of the model itself, in the body
    "first state": "first = nn.Parameter(torch.empty(D))",
    "gate": "gate = nn.Parameter(torch.empty(D))",
    "step embedding": "embedding = nn.Parameter(torch.empty(TAU + 3, D))",  # some ways to mix take more steps
    "row first": "gates = nn.Parameter(torch.empty(TAU + 3, D))",
}
LOSSES = {
    "square": "losses = (y - batch['y']).square().flatten(1).mean(1)",
    "root": "losses = (y - batch['y']).square().flatten(1).mean(1).sqrt()",
    "row by row": "losses = torch.stack([row.square().mean() for row in y - batch['y']])",
    "cross entropy": "losses = F.cross_entropy(y.flatten(0, -2), (batch['y'][..., 0] > 0).long().flatten(), "
    "reduction='none').view(len(y), -1).mean(1)",
    "own length": "e = (y - batch['y']).square().mean(-1) * (torch.arange(y.shape[1]) < batch['length'][:, None])\n"
    "losses = e.sum(1) / batch['length']",
}


def write_model(one: Description, imports: str = HEAD) -> str:
    """The whole text, from its imports on. It defines make_model(seed), make_batch(n, length, seed), loss and LOOP.

    SHARED names what a batch holds once for all examples.
    """
    scales = [1.0, 0.5, -0.7, 0.3, 0.9][: one.k]
    parts = [f"{imports}\nD, TAU, K = {one.d}, {one.tau}, {one.k}\nSCALES = {scales}\n"]
    kinds = dict.fromkeys(cell for cell, _ in one.cells)
    for kind in kinds:
        parts += [text for text in (HELPERS.get(kind, ""), CELLS[kind].source) if text]
    parts += [_core(one), _model(one), _loss(one), _make(one)]
    return "\n\n".join(part.rstrip("\n") + "\n" for part in parts)


def _call(one: Description, k: int, owner: str) -> list[str]:
    """The lines that add cell k of the core to the state."""
    how = STYLES[one.cells[k][1]]
    expression = re.sub(r"\bf\(", f"{owner}.cell{k}(", how.expression)
    if "style at times" in one.extras:
        expression = f"({expression} if len(h) == K else {owner}.cell{k}(h))"
    added = (
        [f"h = h + {expression}", "h = h.tanh_()"]
        if "in place" in one.extras
        else [f"h = torch.tanh(h + {expression})"]
    )
    return [how.before, *added] if how.before else added


def _core(one: Description) -> str:
    init = [f"self.cell{k} = {CELLS[cell].make}" for k, (cell, _) in enumerate(one.cells)]
    if "one module twice" in one.extras:
        init.append("self.again = self.cell0")
    if "tied" in one.extras:
        init.append("self.cell1.inner.weight = self.cell0.inner.weight")
    if one.mixing == "batch norm":
        init.append("self.norm = nn.BatchNorm1d(D, affine=False)")
    body: list[str] = []
    if one.carry in ("streams", "stacked streams"):
        body.append("streams = h" if one.carry == "streams" else "streams = h.unflatten(0, (K, -1))")
    if one.carry in PACK:
        body.append(f"h = {PACK[one.carry][1]}")
    if one.mixing in IN_STATE:
        body += IN_STATE[one.mixing].split("\n")
    if one.mixing in IN_CORE:
        body += [f"if {condition(one.when, 'h')}:", f"    {IN_CORE[one.mixing]}"]
    for k in range(len(one.cells)):
        body += _call(one, k, "self")
    if "one module twice" in one.extras:
        body += [line.replace("self.cell0(", "self.again(") for line in _call(one, 0, "self")]
    if any(extra.startswith("side") for extra in one.extras):
        body.append("self.aux = h.square().flatten(1).mean(1)")
    if one.carry == "streams":
        body.append("h = torch.tanh(0.5 * streams + h)")
    elif one.carry == "stacked streams":
        body.append("h = torch.tanh(0.5 * streams + h).flatten(0, 1)")
    elif one.carry in PACK:
        body.append(f"h = {PACK[one.carry][0]}")
    body.append("return {'h': h}" if "a dict comes back" in one.extras else "return h")
    return _class("Core", init, "h, length" if one.tokens else "h", body)


def _model(one: Description) -> str:
    tied_head = "tied head" in one.extras
    init = ["self.read = nn.Linear(3, D)", "self.core = Core()", f"self.head = nn.Linear(D, {'D' if tied_head else 2})"]
    if tied_head:
        init.append("self.head.weight = self.core.cell0.inner.weight")
    if one.step in ("tick", "norm", "join"):
        init.append(
            f"self.{one.step} = "
            + {"tick": "nn.Identity()", "norm": "nn.LayerNorm(D)", "join": "nn.Linear(2 * D, D)"}[one.step]
        )
    if "end" in one.extras:
        init.append("self.end = nn.Identity()")
    init += [f"self.{BY_NAME[extra]}" for extra in one.extras if extra in BY_NAME]
    given = "batch['x'] + batch['places']" if "shared array" in one.extras else "batch['x']"
    body = ["self.at(None)", f"h = self.read({given})"]
    if one.tokens:
        body.append("length = batch['length']")
    if "before" in one.extras:
        body += _call(one, 0, "self.core")
    if "first state" in one.extras:
        body.append("h = h + self.first")
    if one.carry in PACK:
        body.append(f"h = {PACK[one.carry][0]}")
    if one.step == "join" or "input again" in one.extras:
        body.append("start = h")
    if "deep" in one.extras:
        body.append("outs = []")
    body += write_loop(one)
    if "end" in one.extras:
        body += ["self.at(None)", "h = self.end(h)"]
    if "deep" in one.extras:
        body.append("h = torch.stack(outs).mean(0)")
    elif one.carry in PACK:
        body.append(f"h = {PACK[one.carry][1]}")
    if "after" in one.extras:
        body += _call(one, 0, "self.core")
    body.append("return self.head(h)" + ("[..., :2]" if tied_head else ""))
    return _class(
        "Model", init, "batch", body, AT + "    done = 0  # steps of earlier rounds\n\n" * ("two rounds" in one.extras)
    )


def _loss(one: Description) -> str:
    body = ["y = model(batch)"]
    if "two forwards" in one.extras:
        body.append("y = y + model({**batch, 'x': batch['x'].cos()})")
    if "two rounds" in one.extras:
        body += ["model.done = TAU", "y = y + model({**batch, 'x': batch['x'].cos()})", "model.done = 0"]
    body += LOSSES[one.loss].split("\n")
    if "side" in one.extras:
        body.append("losses = losses + 0.1 * model.core.aux")
    if "side at times" in one.extras:
        body.append("losses = losses + torch.where(batch['x'].flatten(1)[:, 0] > 0.8, 0.1 * model.core.aux, 0)")
    if one.mixing in IN_LOSS:
        body += [f"if {condition(one.when, 'losses')}:", f"    {IN_LOSS[one.mixing]}"]
    return "def loss(model, batch):\n" + "".join(f"    {line}\n" for line in [*body, "return losses"])


def _make(one: Description) -> str:
    """make_model, make_batch and LOOP."""
    made = ["model = Model().double()"]
    if any(cell == "cast" for cell, _ in one.cells):
        made += ["for part in model.modules():", "    if isinstance(part, Cast):", "        part.float()"]
    made += [
        "generator = torch.Generator().manual_seed(seed)",
        "with torch.no_grad():",
        "    for p in model.parameters():",
        "        p.copy_(0.6 * torch.randn(p.shape, generator=generator, dtype=torch.float64))",
    ]
    if "frozen" in one.extras:
        made.append("next(model.core.parameters()).requires_grad_(False)")
    if "frozen read" in one.extras:
        made.append("model.read.requires_grad_(False)")
    training = "training mode" in one.extras or one.mixing == "batch norm"
    made.append("return model.train()" if training else "return model.eval()")
    lead = "n, length" if one.tokens else "n"
    batch = [
        "generator = torch.Generator().manual_seed(seed)",
        f"x, y = (torch.randn({lead}, k, generator=generator, dtype=torch.float64) for k in (3, 2))",
        "batch = {'x': x, 'y': y}",
    ]
    if one.tokens:
        batch.append("batch['length'] = torch.randint(1, length + 1, (n,), generator=generator)")
    if "tau" in one.extras:
        batch.append("batch['tau'] = torch.randint(1, TAU + 1, (n,), generator=generator)")
    if "shared array" in one.extras:
        batch.append("batch['places'] = torch.linspace(-1, 1, 3 * length, dtype=torch.float64).view(length, 3)")
    batch.append("return batch")
    body = ["core.cell0" if "part of the body" in one.extras else "core"]
    body = [one.step, *body] if one.step in ("norm", "join") else body
    body += [name for name in ("read", "head") if f"{name} in the body" in one.extras]
    body += [BY_NAME[extra].partition(" ")[0] for extra in one.extras if extra in BY_NAME]
    shared = ["places"] if "shared array" in one.extras else []
    calls = "restart" if "two forwards" in one.extras else "continue" if "two rounds" in one.extras else "one"
    loop = {"body": body, "step": one.step, "end": "end" if "end" in one.extras else None, "calls": calls}
    return (
        "def make_model(seed):\n"
        + "".join(f"    {line}\n" for line in made)
        + "\n\ndef make_batch(n, length, seed):\n"
        + "".join(f"    {line}\n" for line in batch)
        + f"\n\nSHARED = {shared}\nLOOP = {loop}\n"
    )


def _class(name: str, init: list[str], arguments: str, body: list[str], more: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in init)
    forward = "".join(f"        {line}\n" for line in body)
    return (
        f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}\n"
        f"{more}    def forward(self, {arguments}):\n{forward}"
    )
