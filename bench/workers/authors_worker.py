"""The authors' release at work, in a process of its own. A script: it must not import our package, also called `sdi`.

What is run: `ProjectedTracInSDI(model, target_modules=[inject, core], projection_size=m, loss_reduction="sum")`, made
once, and per run its `featurize_loader(loader=[batch], loss_fn=...)`, with one loss per example, which gives the
step-resolved features of the whole loop body. That is the path of its own README. It calls `backward()` on the model
as it stands, so all parameter gradients are computed; `freeze_others=True` runs it as a careful user might, with every
parameter outside the loop body frozen.

The model is our architecture written once more, in plain PyTorch, for the two configurations that are benchmarked;
weights and batch are read from a file that the parent wrote, and a test compares its logits with ours.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

NOT_WRITTEN = {
    "read_in": "embedding", "state": "embedding", "fused_qkv": False, "head_bias": False, "loop_norm": False,
    "bptt": None, "norm_out": True,
}  # fmt: skip


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=1e-6)


def norm(c: Any) -> nn.Module:
    return nn.LayerNorm(c.d) if c.norm == "layer" else RMSNorm()


class Attention(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.c = c
        self.q, self.k, self.v, self.o = (nn.Linear(c.d, c.d, bias=c.bias) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.c.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.c.rotary:
            q, k = rotary(q), rotary(k)
        if self.c.qk_norm:
            q, k = (F.rms_norm(y, y.shape[-1:], eps=1e-6) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.c.causal)
        return self.o(y.transpose(1, 2).flatten(2))


def rotary(x: Tensor) -> Tensor:
    length, width = x.shape[-2:]
    angle = torch.arange(length).double()[:, None] * 1e4 ** (-torch.arange(0, width, 2).double() / width)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class MLP(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.c = c
        self.up, self.down = nn.Linear(c.d, 4 * c.d, bias=c.bias), nn.Linear(4 * c.d, c.d, bias=c.bias)

    def forward(self, x: Tensor) -> Tensor:
        u = self.up(x)
        return self.down(F.relu(u).square() if self.c.activation == "relu2" else F.gelu(u))


class Block(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = norm(c), Attention(c), norm(c), MLP(c)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Twin(nn.Module):
    """Takes a configuration as a dictionary; parameter names are ours."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        for name, value in NOT_WRITTEN.items():
            if config[name] != value:
                raise ValueError(
                    f"the model of this benchmark is written for {name}={value!r} only, got {config[name]!r}"
                )
        c = self.c = SimpleNamespace(**config)
        self.read_in = nn.Embedding(c.vocab, c.d)
        self.positions = nn.Embedding(c.length, c.d) if c.positions else None
        self.norm_in = norm(c) if c.norm_in else nn.Identity()
        self.prelude = nn.Sequential(*(Block(c) for _ in range(c.prelude)))
        self.inject = nn.Linear(2 * c.d, c.d, bias=False) if c.injection == "concat" else nn.Identity()
        self.core = nn.Sequential(*(Block(c) for _ in range(c.core)))
        self.coda = nn.Sequential(*(Block(c) for _ in range(c.coda)))
        self.norm_out = norm(c)
        self.head = nn.Linear(c.d, c.classes, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.read_in(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1]))
        e = s = self.prelude(self.norm_in(x))
        for _ in range(self.c.tau):
            if self.c.injection == "concat":
                s = torch.cat([e, s], dim=-1)
            elif self.c.injection == "add":
                s = s + e
            s = self.core(self.inject(s))
        y = self.head(self.norm_out(self.coda(s)))
        return y if self.c.softcap is None else self.c.softcap * torch.tanh(y / self.c.softcap)


def token_losses(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """One value per example: the mean over its tokens."""
    logits = model(batch["tokens"])
    return (
        F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), reduction="none")
        .view(len(logits), -1)
        .mean(1)
    )


class Worker:
    def open(self, case: dict[str, Any], file: str, home: str, threads: int) -> dict[str, Any]:
        torch.set_num_threads(threads)
        release = importlib.import_module("sdi")
        if not Path(str(release.__file__)).is_relative_to(home):
            raise ImportError(f"sdi must be the authors' release in {home}, got {release.__file__}")
        content = load_file(file)
        self.batch = {name: content.pop(name).clone() for name in ("tokens", "targets")}  # a view would hold the file
        self.model = Twin(case["config"])
        self.model.load_state_dict(content)
        targets = [m for m in (self.model.inject, self.model.core) if any(True for _ in m.parameters())]
        self.others = set(self.model.parameters()) - {p for m in targets for p in m.parameters()}
        self.estimator = release.ProjectedTracInSDI(
            model=self.model, target_modules=targets, projection_size=case["m"], loss_reduction="sum"
        )
        return {"release": str(release.__file__)}

    def run(self, tiny: bool = False) -> dict[str, Any]:
        """Features only."""
        batch = {name: x[:1, :4] for name, x in self.batch.items()} if tiny else self.batch
        self.model.zero_grad(set_to_none=True)
        self.estimator.featurize_loader(loader=[batch], loss_fn=token_losses)
        self.model.zero_grad(set_to_none=True)
        return {}

    def score(self, freeze_others: bool = False, save: str = "") -> dict[str, Any]:
        """Features, then SDI and TracIn of all pairs."""
        for p in self.others:
            p.requires_grad_(not freeze_others)
        self.model.zero_grad(set_to_none=True)
        start = perf_counter()
        features = self.estimator.featurize_loader(loader=[self.batch], loss_fn=token_losses)
        phi = torch.cat([x for _, x in sorted(features.phi.items())], dim=-1)
        sdi = torch.einsum("id,jtd->ijt", phi.sum(dim=1), phi)
        tracin = sdi.sum(dim=-1)
        seconds = perf_counter() - start
        self.model.zero_grad(set_to_none=True)
        if save:
            save_file({"sdi": sdi.contiguous(), "tracin": tracin.contiguous()}, save)
        return {"seconds": seconds}

    def settle(self) -> dict[str, Any]:
        """Return free memory to the system, as our worker does."""
        gc.collect()
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
        return {}


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"ok": True, **getattr(worker, question.pop("do"))(**question)}
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
