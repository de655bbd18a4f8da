"""The recursive chat model is `sdi.fast.LoopedTransformer`: prelude, looped core with concat injection, coda.

Truncation is a field of its config, the number of loop steps a key of a batch; here are its first weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

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
