"""Sequence-first layers, PyTorch's own default: states (tokens, examples, width) all through the loop.

The oracle runs each example alone, with a copy of the weights for every step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, example, row_norms
from looped_models import make_xy
from torch import Tensor, nn
from torch.func import functional_call

import sdi
from sdi import AuditError, Loop, lm
from sdi.fast import Featurizer, featurize

D, TAU, LENGTH = 4, 3, 5
LOOP = Loop("core", "core")
KINDS: dict[str, Any] = {
    "encoder": lambda: nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0),
    "two encoders": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0), 2, enable_nested_tensor=False
    ),
    "causal encoder": lambda: nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0),
    "padded encoder": lambda: nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0),
    "decoder": lambda: nn.TransformerDecoderLayer(D, 2, 8, dropout=0.0),
    "gru": lambda: nn.GRU(D, D, num_layers=2),
    "lstm": lambda: nn.LSTM(D, D),
}


class Sequences(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.read, self.core, self.head = kind, nn.Linear(4, D), KINDS[kind](), nn.Linear(D, 3)
        self.copies: list[dict[str, Tensor]] | None = None
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_(0, 0.5, generator=generator)
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        h = e = self.read(x).transpose(0, 1)
        state = None
        for t in range(TAU):
            args: tuple[Any, ...] = (h, e) if self.kind == "decoder" else (h,)
            kwargs: dict[str, Any] = {}
            if self.kind == "causal encoder":
                kwargs["src_mask"] = torch.full((len(h), len(h)), -torch.inf, dtype=h.dtype).triu(1)
            if self.kind == "padded encoder":
                kwargs["src_key_padding_mask"] = x[..., 0] > 1
            if self.kind in ("gru", "lstm"):
                args = (h, state)
            out = self.core(*args, **kwargs) if self.copies is None else self.untied(t, args, kwargs)
            if self.kind in ("gru", "lstm"):
                out, state = out
            h = h + out
        return self.head(h)  # (tokens, examples, 3)

    def untied(self, t: int, args: Any, kwargs: Any) -> Any:
        assert self.copies is not None
        return functional_call(self.core, self.copies[t], args, kwargs)


def loss(model: nn.Module, batch: Any) -> Tensor:
    return model(batch["x"]).square().mean(dim=(0, 2))


def truth(model: Sequences, batch: Any) -> np.ndarray:
    rows = []
    for i in range(len(batch["x"])):
        copies = [
            {k: p.detach().clone().requires_grad_() for k, p in model.core.named_parameters()} for _ in range(TAU)
        ]
        model.copies = copies
        try:
            value = loss(model, example(batch, i)).sum()
        finally:
            model.copies = None
        grads = torch.autograd.grad(value, [w for copy in copies for w in copy.values()])
        rows.append(torch.cat([g.flatten() for g in grads]).view(TAU, -1))
    return torch.stack(rows).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("kind", KINDS)
def test_sequence_first_layers_are_those_of_the_oracle(kind: str, memory: str) -> None:
    model = Sequences(kind)
    for n in (3, LENGTH, 1):  # as many examples as tokens, too
        batch = make_xy(n)
        phi = truth(model, batch)
        found = featurize(model, loss, batch, loop=LOOP, memory=memory)
        assert_near(found.values, phi, row_norms(phi), kind)
        assert found.outside is None


class TokensFirst(Sequences):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1))


@pytest.mark.parametrize("n", [3, LENGTH])
def test_batches_whose_first_axis_is_not_the_examples_are_refused(n: int, tmp_path: Path) -> None:
    """As many tokens as examples, too, where rows would be given the ids of tokens."""
    model = TokensFirst("gru")
    batch = {"x": make_xy(n)["x"].transpose(0, 1).contiguous()}
    words = "must be the first axis"
    with pytest.raises((ValueError, AuditError), match=words):
        Featurizer(model, loss, loop=LOOP)(batch, [f"t{i}" for i in range(LENGTH)])
    lm.save_checkpoint(tmp_path / "a.safetensors", model, 0.5)
    with pytest.raises((ValueError, AuditError), match=words):
        sdi.attribute(
            model, loss=loss, loop=LOOP, checkpoints=tmp_path / "a.safetensors", train=[batch], query=[batch], m=8,
            spread=False,
        )  # fmt: skip
