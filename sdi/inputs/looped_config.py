"""LoopedConfig: one description of a looped transformer for both backends.

    e   = read_in(tokens) [+ positions] [normed], through the prelude blocks
    s   = e, or 0
    s  <- [loop_norm](core(inject(e, s)))        tau times; this is the loop
    y   = head([norm_out](coda(s)))              s as it stood at the read-out step
    inject(e, s) = s | s + e | W concat(e, s)
    block(x)     : x += o(attention(norm1 x));  x += down(act(up(norm2 x)))

Parameters have the same names in both backends: `core.0.attn.q.weight`, `inject.weight`, `head.weight`, ...
A step begins at every call of `inject`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Literal

from sdi.arguments import at_least_one, one_of
from sdi.loop import Loop

Choice = tuple[str, ...]
_CHOICES: dict[str, Choice] = {
    "read_in": ("embedding", "onehot"),
    "state": ("embedding", "zero"),
    "injection": ("none", "add", "concat"),
    "norm": ("layer", "rms"),
    "activation": ("gelu", "gelu_tanh", "relu2"),
}


@dataclass(frozen=True)
class LoopedConfig:
    """Sizes and choices of a looped transformer.

    >>> LoopedConfig.looped_gpt().parameter_count
    135069696
    """

    vocab: int = 16  # tokens in
    classes: int = 16  # logits out
    d: int = 16  # width of the residual stream
    heads: int = 2  # of attention
    tau: int = 4  # steps of an example whose batch does not say
    length: int = 16  # longest sequence, for learned positions
    prelude: int = 0  # blocks before the loop
    core: int = 1  # blocks in the loop
    coda: int = 0  # blocks after the loop
    read_in: Literal["embedding", "onehot"] = "embedding"  # or a linear layer of one-hot tokens
    state: Literal["embedding", "zero"] = "embedding"  # s before the first step
    injection: Literal["none", "add", "concat"] = "add"  # how e enters each step: not, s + e, or W concat(e, s)
    norm: Literal["layer", "rms"] = "layer"  # layer: affine; rms: without parameters
    activation: Literal["gelu", "gelu_tanh", "relu2"] = "gelu"  # of the MLP
    positions: bool = False  # learned ones, added to the read-in
    rotary: bool = False  # rotary positions in attention
    causal: bool = True  # attention looks back only
    bias: bool = True  # in the linear layers of blocks
    head_bias: bool = False  # in the head
    fused_qkv: bool = False  # one matrix for queries, keys and values
    qk_norm: bool = False  # a norm of queries and keys
    norm_in: bool = False  # a norm after the read-in
    loop_norm: bool = False  # a norm at the end of every step
    norm_out: bool = True  # a norm before the head
    softcap: float | None = None  # logits -> softcap * tanh(logits / softcap)
    bptt: int | None = None  # keep gradients for the last bptt steps before the read-out only

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            one_of(name, getattr(self, name), choices)
        for name in ("vocab", "classes", "d", "heads", "tau", "length", "core"):
            at_least_one(name, getattr(self, name))
        for name in ("prelude", "coda"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.d % self.heads:
            raise ValueError(f"d must be a multiple of heads, got d={self.d} and heads={self.heads}")
        if self.rotary and (self.d // self.heads) % 2:
            raise ValueError(f"rotary needs an even head width, got d / heads = {self.d // self.heads}")
        if self.bptt is not None and self.bptt < 1:
            raise ValueError(f"bptt must be at least 1 or None, got {self.bptt}")
        if self.softcap is not None and self.softcap <= 0:
            raise ValueError(f"softcap must be above 0 or None, got {self.softcap}")

    def loop(self) -> Loop:
        """The whole loop as the body."""
        shapes = self.shapes()
        parts = [p for p in ("inject", "core", "loop_norm") if any(n.startswith(p + ".") for n in shapes)]
        return Loop(body=parts, step="inject", end="coda")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter's shape, in the order of the computation."""
        d = self.d
        out: dict[str, tuple[int, ...]] = {}

        def linear(name: str, d_out: int, d_in: int, bias: bool) -> None:
            out[f"{name}.weight"] = (d_out, d_in)
            if bias:
                out[f"{name}.bias"] = (d_out,)

        def norm(name: str) -> None:
            if self.norm == "layer":
                out[f"{name}.weight"] = (d,)
                out[f"{name}.bias"] = (d,)

        def block(name: str) -> None:
            norm(f"{name}.norm1")
            if self.fused_qkv:
                linear(f"{name}.attn.qkv", 3 * d, d, self.bias)
            else:
                for part in "qkv":
                    linear(f"{name}.attn.{part}", d, d, self.bias)
            linear(f"{name}.attn.o", d, d, self.bias)
            norm(f"{name}.norm2")
            linear(f"{name}.mlp.up", 4 * d, d, self.bias)
            linear(f"{name}.mlp.down", d, 4 * d, self.bias)

        if self.read_in == "embedding":
            out["read_in.weight"] = (self.vocab, d)
        else:
            linear("read_in", d, self.vocab, True)
        if self.positions:
            out["positions.weight"] = (self.length, d)
        if self.norm_in:
            norm("norm_in")
        for i in range(self.prelude):
            block(f"prelude.{i}")
        if self.injection == "concat":
            linear("inject", d, 2 * d, False)
        for i in range(self.core):
            block(f"core.{i}")
        if self.loop_norm:
            norm("loop_norm")
        for i in range(self.coda):
            block(f"coda.{i}")
        if self.norm_out:
            norm("norm_out")
        linear("head", self.classes, d, self.head_bias)
        return out

    @property
    def parameter_count(self) -> int:
        """How many numbers the weights are."""
        return sum(prod(shape) for shape in self.shapes().values())

    @classmethod
    def looped_gpt(cls, **changes: object) -> LoopedConfig:
        """The looped GPT of the paper's scalability experiment: 135.1M parameters, 29.5M of them in the loop.

        changes: fields to set otherwise.
        """
        base: dict[str, object] = {
            "vocab": 50304, "classes": 50304, "d": 768, "heads": 12, "tau": 32, "length": 128,
            "prelude": 2, "core": 4, "coda": 2, "injection": "concat", "norm": "rms", "activation": "relu2",
            "rotary": True, "bias": False, "qk_norm": True, "norm_in": True, "softcap": 15.0,
        }  # fmt: skip
        return cls(**{**base, **changes})  # type: ignore[arg-type]

    @classmethod
    def parity(cls, **changes: object) -> LoopedConfig:
        """The parity model: one GPT-2 block and a LayerNorm in the loop, additive injection, no positions.

        changes: fields to set otherwise.
        """
        base: dict[str, object] = {
            "vocab": 6, "classes": 6, "d": 256, "heads": 64, "tau": 42, "length": 42, "read_in": "onehot",
            "state": "zero", "injection": "add", "activation": "gelu_tanh", "fused_qkv": True, "head_bias": True,
            "loop_norm": True, "norm_out": False,
        }  # fmt: skip
        return cls(**{**base, **changes})  # type: ignore[arg-type]

    @classmethod
    def sudoku(cls, **changes: object) -> LoopedConfig:
        """The Sudoku model: one bidirectional block with learned positions, no injection.

        changes: fields to set otherwise.
        """
        base: dict[str, object] = {
            "vocab": 10, "classes": 9, "d": 128, "heads": 4, "tau": 32, "length": 81, "injection": "none",
            "positions": True, "causal": False,
        }  # fmt: skip
        return cls(**{**base, **changes})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """The fields, as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
