"""Task: training examples, queries and a model's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sdi.inputs.looped_config import LoopedConfig

from ..settings import Settings

Batch = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a model is trained on and asked. A batch holds "id", "tokens", "targets" and "mask", in float64."""

    about: Callable[[Settings], str]  # what is learned, for the page
    model_config: Callable[[Settings], LoopedConfig]
    train: Callable[[Settings], Batch]  # all training examples, the same for all seeds
    queries: Callable[[Settings], list[Batch]]  # examples that training never sees; the mean loss of each is a query
