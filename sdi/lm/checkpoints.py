"""Checkpoints with their eta: from a training loop of one's own, or from a callback of Hugging Face's Trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sdi.arguments import at_least_one, whole
from sdi.files import expand, write_whole


def save_checkpoint(path: str | Path, model: Any, eta: Any) -> Path:
    """Write a model's weights as safetensors, with their eta in it, so that `sdi.find_checkpoints` needs nothing else.

    path: the file, whose name ends in .safetensors. model: an `nn.Module`.
    eta: the learning rate; a mapping of module or parameter names to rates; or the optimiser, whose rates are taken.
    Returns the path.
    """
    import torch
    from safetensors.torch import save

    path = expand(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {path}")
    rate = _rates(model, eta) if hasattr(eta, "param_groups") else eta
    seen: dict[Any, str] = {}
    tensors = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            continue
        place = (value.data_ptr(), tuple(value.shape), value.stride())
        if value.numel() and place in seen:
            continue  # tied: one is enough
        seen[place] = name
        tensors[name] = value.detach().cpu().contiguous().clone()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(tensors, metadata={"eta": json.dumps(rate)}))
    return path


def checkpoint_callback(folder: str | Path, every: int) -> Any:
    """A callback for transformers' Trainer that writes checkpoints with their learning rates (the extra [hf]).

    folder: where step-N.safetensors are written. every: how many optimiser steps lie between two checkpoints.
    Returns a `TrainerCallback`, for `Trainer(..., callbacks=[...])`.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise ImportError("checkpoint_callback needs transformers: pip install 'sdi-influence[hf]'") from None
    at_least_one("every", every := whole("every", every))
    place = expand(folder)

    class CheckpointCallback(TrainerCallback):
        rate: Any = None

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            self.rate = _rates(given["model"], given["optimizer"])  # before the schedule changes it

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step % every == 0:
                save_checkpoint(place / f"step-{state.global_step}.safetensors", given["model"], self.rate)

    return CheckpointCallback()


def _rates(model: Any, optimiser: Any) -> Any:
    """An optimiser's learning rate; where its groups differ, one for each parameter, by name."""
    groups = getattr(optimiser, "optimizer", optimiser).param_groups
    rates = {float(group["lr"]) for group in groups}
    if len(rates) == 1:
        return rates.pop()
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: float(group["lr"]) for group in groups for p in group["params"] if id(p) in names}
