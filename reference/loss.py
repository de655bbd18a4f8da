"""Cross-entropy of the tokens, averaged over the tokens of each example, with its gradient written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Shaped

from .batch import read_labels
from .model import LoopedTransformer
from .pullback import Array


class Loss(Protocol):
    """What this backend asks of a loss: one value per example, and the gradient of each at its own logits."""

    def __call__(self, model: LoopedTransformer, batch: Mapping[str, Any]) -> Shaped[Array, "n"]: ...

    def dlogits(self, logits: Array, batch: Mapping[str, Any]) -> Shaped[Array, "n L classes"]: ...


@dataclass(frozen=True)
class TokenCrossEntropy:
    """loss_i = sum_l mask[i, l] ce[i, l] / sum_l mask[i, l], ce = log sum_c exp(logits_c) - logits_target."""

    def __call__(self, model: LoopedTransformer, batch: Mapping[str, Any]) -> Shaped[Array, "n"]:
        return self.of_logits(model.forward(batch), batch)

    def of_logits(self, logits: Shaped[Array, "n L classes"], batch: Mapping[str, Any]) -> Shaped[Array, "n"]:
        n, length, classes = logits.shape
        labels = read_labels(batch, (n, length), classes)
        shift = np.real(logits).max(axis=-1, keepdims=True)
        log_total = np.log(np.exp(logits - shift).sum(axis=-1)) + shift[..., 0]
        chosen = np.take_along_axis(logits, labels.targets[..., None], axis=-1)[..., 0]
        return np.asarray((labels.mask * (log_total - chosen)).sum(axis=1) / labels.mask.sum(axis=1))

    def dlogits(self, logits: Shaped[Array, "n L classes"], batch: Mapping[str, Any]) -> Shaped[Array, "n L classes"]:
        """The gradient of each example's loss at its logits: mask / sum(mask) * (softmax(logits) - onehot(target)).

        logits: (n, L, classes). batch: as in `reference/batch.py`.
        """
        n, length, classes = logits.shape
        labels = read_labels(batch, (n, length), classes)
        total = np.exp(logits - np.real(logits).max(axis=-1, keepdims=True))
        softmax = total / total.sum(axis=-1, keepdims=True)
        share = labels.mask / labels.mask.sum(axis=1, keepdims=True)
        return share[..., None] * (softmax - np.eye(classes)[labels.targets])


token_cross_entropy = TokenCrossEntropy()
