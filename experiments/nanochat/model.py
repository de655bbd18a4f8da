"""The recursive chat model is `sdi.fast.LoopedTransformer`: prelude, looped core with concat injection, coda.

Truncation is a field of its config, the number of loop steps a key of a batch; here are its first weights, its parts
one by one (e = begin(tokens), s <- step(e, s), logits = finish(s)), and the loop from a state that is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sdi.backends import room

from .settings import Settings


def fresh_model(settings: Settings) -> Any:
    """The model before training: normal matrices, the injection of [e, s] at [I | 0] plus noise, so e passes first.

    The original zeroes every output projection, and with them all gradients of the loop: these are normal here.
    """
    model = room("fast").LoopedTransformer.init(settings.model_config(), seed=settings.seed, scale=settings.scale)
    with torch.no_grad():
        model.inject.weight[:, settings.d :].sub_(torch.eye(settings.d))  # `init` has [I | I]
    return model


def model_with(settings: Settings, weights: Mapping[str, Any], tau: int | None = None, truncated: bool = True) -> Any:
    """A trained model. weights: by parameter name. tau, truncated: as in `Settings.model_config`."""
    model = room("fast").LoopedTransformer(settings.model_config(tau, truncated))
    model.load_state_dict({name: torch.as_tensor(w) for name, w in weights.items()})
    return model


def begin(model: Any, tokens: Tensor) -> Any:
    """e, what every step is given, and the state before the first: (n, L, d)."""
    return model.prelude(model.norm_in(model.read_in(tokens)))


def step(model: Any, e: Tensor, s: Tensor) -> Any:
    """The state after one more loop step."""
    return model.loop_norm(model.core(model.inject(torch.cat([e, s], dim=-1))))


def finish(model: Any, s: Tensor) -> Any:
    """Logits (n, L, vocab) of a state."""
    y = model.head(model.norm_out(model.coda(s)))
    cap = model.config.softcap
    return y if cap is None else cap * torch.tanh(y / cap)


class FromState(nn.Module):
    """The same model with full BPTT, whose loop begins at the batch's "state" (n, L, d) if there is one.

    inner: a LoopedTransformer; parameters have its names. A batch takes the same "tau" steps for all of its examples.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.config = inner.config
        for name, module in inner.named_children():
            self.add_module(name, module)

    def forward(self, batch: Mapping[str, Any]) -> Any:
        e = begin(self, batch["tokens"])
        s = batch.get("state", e)
        for _ in range(int(batch["tau"][0])):
            s = step(self, e, s)
        return finish(self, s)
