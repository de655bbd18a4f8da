"""Losses of language models: cross-entropy per example or per token, with shift, padding and -100 handled.

A batch is a mapping with "input_ids" (n, T) and, if wanted,
    "attention_mask"  (n, T) 0 where there is padding, which never counts
    "labels"          (n, T) the tokens to predict, -100 where none; of causal models by default the inputs themselves
    "token"           (n,) of each example, the one position whose token counts (`sdi.lm.per_token`)
and what else the model's forward takes by name. The model may be any module whose output is logits (n, T, vocabulary),
or a tuple or dict whose first entry, or entry "logits", is.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

IGNORED = -100
OURS = ("labels", "token", "tau", "id")


def causal_loss(model: Any, batch: Mapping[str, Any]) -> Any:
    """The mean loss over the counted tokens of each example, each predicted from those before it.

    model: a causal language model. batch: as in this module's text; with "token", the loss of that token alone.
    An example without any token to predict has the loss NaN, which a run refuses by its name.
    Returns a tensor (n,).

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7))
    >>> tokens, mask = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    >>> batch = {"input_ids": tokens, "attention_mask": mask}
    >>> causal_loss(model, batch).shape
    torch.Size([2])
    """
    return _of_examples(*_causal(model, batch), batch)


def causal_token_losses(model: Any, batch: Mapping[str, Any]) -> Any:
    """The loss of each token, 0 where none counts. The first token of an example is predicted from nothing.

    model, batch: as in `causal_loss`.
    Returns a tensor (n, T).

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7))
    >>> tokens, mask = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    >>> batch = {"input_ids": tokens, "attention_mask": mask}
    >>> (causal_token_losses(model, batch) > 0).tolist()
    [[False, True, True], [False, True, False]]
    """
    return _causal(model, batch)[0]


def masked_loss(model: Any, batch: Mapping[str, Any]) -> Any:
    """The mean loss over the tokens of each example that have a label, each predicted at its own place.

    model: a masked language model. batch: as in this module's text, with "labels".
    An example without any token to predict has the loss NaN, which a run refuses by its name.
    Returns a tensor (n,).

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7))
    >>> batch = {"input_ids": torch.tensor([[1, 6, 3]]), "labels": torch.tensor([[-100, 2, -100]])}
    >>> masked_loss(model, batch).shape
    torch.Size([1])
    """
    return _of_examples(*_masked(model, batch), batch)


def masked_token_losses(model: Any, batch: Mapping[str, Any]) -> Any:
    """The loss of each token, 0 where none counts.

    model, batch: as in `masked_loss`. Returns a tensor (n, T).

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7))
    >>> batch = {"input_ids": torch.tensor([[1, 6, 3]]), "labels": torch.tensor([[-100, 2, -100]])}
    >>> (masked_token_losses(model, batch) > 0).tolist()
    [[False, True, False]]
    """
    return _masked(model, batch)[0]


def counted(batch: Mapping[str, Any], causal: bool = True) -> Any:
    """Which tokens count, (n, T) of bools: those with a label that are no padding; of causal models, not the first.

    Where padding stands on the left, the first is the one after it.
    """
    import torch

    inputs = _inputs(batch)
    labels = batch.get("labels")
    if labels is None and not causal:
        raise ValueError('a masked loss needs the batch\'s "labels": -100 but where a token is to be predicted')
    if labels is not None and labels.shape != inputs.shape:
        raise ValueError(f"labels must have the shape of input_ids, {tuple(inputs.shape)}, got {tuple(labels.shape)}")
    given = batch.get("attention_mask")
    real = torch.ones_like(inputs, dtype=torch.bool) if given is None else given != 0
    mask = real if labels is None else real & (labels != IGNORED)
    return mask & (real.cumsum(dim=1) > 1) if causal else mask


def _causal(model: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    import torch

    mask = counted(batch)
    logits = _logits(model, batch)
    shifted = torch.cat([torch.zeros_like(logits[:, :1]), logits[:, :-1]], dim=1)  # at each place, what was predicted
    return _cross_entropy(shifted, _labels(batch), mask), mask


def _masked(model: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    mask = counted(batch, causal=False)
    return _cross_entropy(_logits(model, batch), batch["labels"], mask), mask


def _cross_entropy(logits: Any, labels: Any, mask: Any) -> Any:
    import torch

    safe = torch.where(mask, labels, torch.zeros_like(labels))
    chosen = _pick(logits.log_softmax(dim=-1), safe, "labels", "a token of the vocabulary")
    return torch.where(mask, -chosen, torch.zeros_like(chosen))


def _pick(x: Any, index: Any, name: str, what: str) -> Any:
    """Of the last axis of x, the entry with each index; refused if it has none (`take_along_dim` would wrap around)."""
    try:
        return x.gather(-1, index[..., None])[..., 0]
    except (RuntimeError, IndexError):
        size = x.shape[-1]
        bad = index[(index < 0) | (index >= size)]
        if not bad.numel():
            raise
        raise ValueError(f"{name} must be {what}, from 0 to {size - 1}, got {bad[0].item()}") from None


def _of_examples(losses: Any, mask: Any, batch: Mapping[str, Any]) -> Any:
    token = batch.get("token")
    if token is None:
        return losses.sum(dim=1) / mask.sum(dim=1)  # 0 / 0 is NaN
    at, what = token.to(losses.device), "a place in the example"
    return _pick(losses, at, "token", what) / _pick(mask, at, "token", what)  # a token that does not count: NaN


def _inputs(batch: Mapping[str, Any]) -> Any:
    if not isinstance(batch, Mapping) or "input_ids" not in batch:
        keys = list(batch) if isinstance(batch, Mapping) else type(batch).__name__
        raise ValueError(f'a batch must be a mapping with "input_ids", got {keys}')
    return batch["input_ids"]


def _labels(batch: Mapping[str, Any]) -> Any:
    labels = batch.get("labels")
    return batch["input_ids"] if labels is None else labels


def _logits(model: Any, batch: Mapping[str, Any]) -> Any:
    inputs = _inputs(batch)
    forward = inspect.signature(model.forward).parameters
    kinds = {p.kind for p in forward.values()}
    named = kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}  # a wrapper that passes all on
    more = {key: x for key, x in batch.items() if key not in ("input_ids", *OURS) and (key in forward or named)}
    if "use_cache" in forward:
        more.setdefault("use_cache", False)  # a cache is for generating, and would be kept for nothing
    out = model(input_ids=inputs, **more) if "input_ids" in forward or named else model(inputs, **more)
    logits = out["logits"] if isinstance(out, Mapping) else getattr(out, "logits", out)
    logits = logits[0] if isinstance(logits, (tuple, list)) else logits
    if getattr(logits, "ndim", 0) != 3 or logits.shape[:2] != inputs.shape:
        shape = tuple(getattr(logits, "shape", ()))
        raise ValueError(f"the model must give logits of shape {(*inputs.shape, 'vocabulary')}, got {shape}")
    return logits
