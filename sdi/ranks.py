"""find_share, whole_model: what this process does in its torch.distributed job. Does not import torch."""

from __future__ import annotations

import sys
from typing import Any

from sdi.backends import room
from sdi.inputs.unwrap import unwrapped_model
from sdi.store.share import Share


def find_share() -> Share:
    """The share of this process in the torch.distributed job that it belongs to; alone where there is none."""
    return room("fast.ranks").joined() if in_job() else Share()


def whole_model(model: Any, ranks: bool = True) -> Any:
    """The plain model in a wrapped one; of one that fully_shard has cut up, a whole copy, which all ranks gather.

    ranks: whether all ranks of the job make this call; without them, a model that is cut up is refused.
    """
    return unwrapped_model(room("fast.gather").gathered(model) if ranks and in_job() else model)


def in_job() -> bool:
    """Whether torch.distributed is initialised in this process."""
    dist = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and dist.is_initialized()
