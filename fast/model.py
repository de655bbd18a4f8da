"""The looped transformer of `LoopedConfig` in PyTorch: parameter names and numbers as in the reference.

Shapes: n examples, L tokens, width d. A step begins at every call of `inject`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdi.errors import nearest
from sdi.inputs.looped_config import LoopedConfig

LAYER_EPS, RMS_EPS, ROTARY_BASE = 1e-5, 1e-6, 1e4


class RMSNorm(nn.Module):
    """Without parameters: x / sqrt(mean(x^2) + eps)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=RMS_EPS)


class Attention(nn.Module):
    def __init__(self, config: LoopedConfig) -> None:
        super().__init__()
        c, d = config, config.d
        self.config = config
        if c.fused_qkv:
            self.qkv = nn.Linear(d, 3 * d, bias=c.bias)
        else:
            self.q, self.k, self.v = (nn.Linear(d, d, bias=c.bias) for _ in range(3))
        self.o = nn.Linear(d, d, bias=c.bias)

    def forward(self, x: Float[Tensor, "n L d"]) -> Float[Tensor, "n L d"]:
        c = self.config
        qkv = self.qkv(x).chunk(3, dim=-1) if c.fused_qkv else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (c.heads, -1)).transpose(1, 2) for part in qkv)  # (n, heads, L, d / heads)
        if c.rotary:
            cos, sin = rotary_angles(x.shape[1], c.d // c.heads, x.device, x.dtype)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if c.qk_norm:
            q, k = (F.rms_norm(part, part.shape[-1:], eps=RMS_EPS) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=c.causal)
        return self.o(y.transpose(1, 2).flatten(2))


def rotary_angles(length: int, width: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of position * base^(-2i / width), shape (L, width / 2); made once for all calls."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return _angles.__wrapped__(length, width, device, dtype)  # what a transform makes is of no use outside of it
    return _angles(length, width, device, dtype)


@lru_cache(maxsize=16)
def _angles(length: int, width: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.no_grad():  # usable in any mode, whichever the first call is in
        frequency = ROTARY_BASE ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
        angle = torch.arange(length, device=device, dtype=torch.float64)[:, None] * frequency
        return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Float[Tensor, "n heads L w"], cos: Tensor, sin: Tensor) -> Float[Tensor, "n heads L w"]:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class MLP(nn.Module):
    def __init__(self, config: LoopedConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.d, 4 * config.d, bias=config.bias)
        self.down = nn.Linear(4 * config.d, config.d, bias=config.bias)
        self.activation = config.activation

    def forward(self, x: Tensor) -> Tensor:
        u = self.up(x)
        if self.activation == "relu2":
            return self.down(F.relu(u).square())
        return self.down(F.gelu(u, approximate="tanh" if self.activation == "gelu_tanh" else "none"))


class Block(nn.Module):
    def __init__(self, config: LoopedConfig) -> None:
        super().__init__()
        self.norm1, self.attn = make_norm(config), Attention(config)
        self.norm2, self.mlp = make_norm(config), MLP(config)

    def forward(self, x: Float[Tensor, "n L d"]) -> Float[Tensor, "n L d"]:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def make_norm(config: LoopedConfig) -> nn.Module:
    return nn.LayerNorm(config.d, eps=LAYER_EPS) if config.norm == "layer" else RMSNorm()


class LoopedTransformer(nn.Module):
    """The looped transformer of a LoopedConfig: read in, loop, read out. Called with a batch, it gives logits.

    config: sizes and choices. weights: arrays by parameter name, as `config.shapes()` says; None leaves PyTorch's own.
    """

    def __init__(self, config: LoopedConfig, weights: Mapping[str, np.ndarray | Tensor] | None = None) -> None:
        super().__init__()
        c = self.config = config
        self.read_in = nn.Embedding(c.vocab, c.d) if c.read_in == "embedding" else nn.Linear(c.vocab, c.d)
        self.positions = nn.Embedding(c.length, c.d) if c.positions else None
        self.norm_in = make_norm(c) if c.norm_in else nn.Identity()
        self.prelude = nn.Sequential(*(Block(c) for _ in range(c.prelude)))
        self.inject = nn.Linear(2 * c.d, c.d, bias=False) if c.injection == "concat" else nn.Identity()
        self.core = nn.Sequential(*(Block(c) for _ in range(c.core)))
        self.loop_norm = make_norm(c) if c.loop_norm else nn.Identity()
        self.coda = nn.Sequential(*(Block(c) for _ in range(c.coda)))
        self.norm_out = make_norm(c) if c.norm_out else nn.Identity()
        self.head = nn.Linear(c.d, c.classes, bias=c.head_bias)
        if weights is not None:
            tensors = _checked(weights, c.shapes())
            self.load_state_dict(tensors, assign=True)
            self.to(next(iter(tensors.values())).dtype)

    @classmethod
    def init(cls, config: LoopedConfig, seed: int = 0, scale: float = 0.02) -> LoopedTransformer:
        """Fresh weights as in the reference: normal matrices, norms at 1 and 0, biases 0, the injection at [I | I].

        config: sizes and choices. seed: of the random numbers. scale: standard deviation of the matrices.
        """
        model = cls(config)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.dim() == 1:
                    p.fill_(1.0 if name.endswith("weight") else 0.0)
                else:
                    p.normal_(0.0, scale, generator=generator)
                if name == "inject.weight":
                    p.add_(torch.eye(config.d).repeat(1, 2))
        return model

    def weights(self) -> dict[str, np.ndarray]:
        """The parameters as arrays, for the reference; of bfloat16, which NumPy lacks, as float32."""
        state = {name: p.float() if p.dtype == torch.bfloat16 else p for name, p in self.state_dict().items()}
        return {name: p.detach().cpu().numpy().copy() for name, p in state.items()}

    def forward(self, batch: Mapping[str, Any]) -> Float[Tensor, "n L classes"]:
        c, dtype = self.config, self.head.weight.dtype
        tokens = batch["tokens"]
        n, device = len(tokens), self.head.weight.device
        x = self.read_in(tokens) if c.read_in == "embedding" else self.read_in(F.one_hot(tokens, c.vocab).to(dtype))
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=device))
        e = self.prelude(self.norm_in(x))
        tau = _steps(batch, "tau", torch.full((n,), c.tau, device="cpu"))
        readout = _steps(batch, "readout", tau)
        y = self.head(self.norm_out(self.coda(self.loop(e, tau, readout))))
        # In place where nobody sees it: at a large vocabulary, fresh pages cost more than the arithmetic.
        return y if c.softcap is None else c.softcap * (y / c.softcap).tanh_()

    def loop(
        self, e: Float[Tensor, "n L d"], tau: Int[Tensor, "n"], readout: Int[Tensor, "n"]
    ) -> Float[Tensor, "n L d"]:
        """The state of each example at its read-out step.

        e: the read-in (n, L, d). tau, readout: (n,) steps taken, and the step that is read out, of each example.
        """
        c = self.config
        s = e if c.state == "embedding" else torch.zeros_like(e)
        out = s
        last = readout.tolist()  # compared in Python: two operations less a step
        for t in range(1, int(tau.max()) + 1):
            if c.bptt is not None:
                s = _where([r - c.bptt + 1 == t for r in last], s.detach(), s)
            match c.injection:
                case "concat":
                    x = torch.cat([e, s], dim=-1)
                case "add":
                    x = s + e
                case _:
                    x = s
            s = self.loop_norm(self.core(self.inject(x)))
            out = _where([r == t for r in last], s, out)
        return out


def _checked(weights: Mapping[str, np.ndarray | Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Weights as tensors, checked against the names and shapes of the config, with the reference's messages."""
    for name in weights:
        if name not in shapes:
            raise ValueError(f"weights hold {name!r}, which the config does not have{nearest(name, shapes)}")
    tensors = {}
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"weights must hold {name!r} {shape}, which is missing")
        w = weights[name]
        tensors[name] = w.detach().clone() if isinstance(w, Tensor) else torch.as_tensor(np.array(w))
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"weight {name!r} must have shape {shape}, got {tuple(tensors[name].shape)}")
        if not tensors[name].is_floating_point():
            raise TypeError(f"weight {name!r} must hold real numbers, got {tensors[name].dtype}")
    return tensors


def _steps(batch: Mapping[str, Any], name: str, default: Tensor) -> Int[Tensor, "n"]:
    value = batch.get(name)
    return default if value is None else torch.as_tensor(value).cpu()


def _where(chosen: Sequence[bool], yes: Tensor, no: Tensor) -> Tensor:
    """yes where chosen, no elsewhere, example by example; either itself if all examples agree, for a smaller graph."""
    if all(chosen):
        return yes
    if not any(chosen):
        return no
    return torch.where(torch.tensor(chosen).to(yes.device)[:, None, None], yes, no)


def token_cross_entropy(model: nn.Module, batch: Mapping[str, Any]) -> Float[Tensor, "n"]:
    """Token cross-entropy, averaged over the tokens of each example; one value per example.

    model: gives logits (n, L, classes) for a batch. batch: "targets" (n, L), and optionally "mask" (n, L) as weights.
    """
    logits = model(batch)
    losses = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), reduction="none").view(logits.shape[:2])
    mask = batch.get("mask")
    if mask is None:
        return losses.mean(dim=1)
    weight = mask.to(losses.dtype)
    return (losses * weight).sum(dim=1) / weight.sum(dim=1)
