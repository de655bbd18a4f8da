"""States of training on disk: tensors only, whole or not there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sdi.errors import StoreError
from sdi.files import write_whole

from .update import State

SAVE_EVERY = 30.0  # seconds of training that a kill may lose


def digest(weights: Tensor) -> bytes:
    """16 bytes that differ if any bit of the weights does."""
    return hashlib.blake2b(weights.detach().cpu().numpy().tobytes(), digest_size=16).digest()


def write_states(file: Path, states: Mapping[int, State], digests: Sequence[bytes]) -> None:
    """Write states, by the number of updates made before them, and the digests of weights after each update."""
    tensors = {str(k): state.contiguous() for k, state in states.items()}
    write_whole(file, save(tensors, metadata={"digests": b"".join(digests).hex()}))


def read_states(file: Path) -> tuple[dict[int, State], list[bytes]]:
    """What `write_states` wrote."""
    try:
        with safe_open(file, framework="pt") as content:
            raw = bytes.fromhex((content.metadata() or {})["digests"])
            states = {int(name): content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise StoreError(f"{file} is not a file of training states ({error}); remove it to begin anew") from None
    return states, [raw[i : i + 16] for i in range(0, len(raw), 16)]
