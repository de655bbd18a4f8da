"""load_satnet: the 10,000 boards that the paper trained on, where the user has them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from .generator import Boards

CHECKSUMS = {
    "features.pt": "8349ff2a210f6a5bffc052dbddbde6b3461ef893122d19b375fc5dd2f444fbef",
    "labels.pt": "596fa31210b143fed37252d2694caeb297e18998a8127d2c9a58897552da5ec8",
}
SHAPE = (10000, 9, 9, 9)  # board, row, column, digit: one-hot, a blank is all zeros
WHAT = (
    "SATNet's Sudoku data set is in two files, features.pt and labels.pt, in the sudoku.zip that its authors offer "
    "beside their code: https://github.com/locuslab/SATNet, under 'Getting the datasets'; unpack it, put both into one "
    "folder and name it, or leave it out for generated boards"
)


def load_satnet(folder: Path) -> Boards:
    """SATNet's boards. folder: holds features.pt and labels.pt, whose checksums are verified before they are opened."""
    digits = []
    for name, wanted in CHECKSUMS.items():
        path = folder / name
        if not path.is_file():
            both = " and ".join(CHECKSUMS)
            raise ValueError(f"satnet must be a folder with {both}, got {folder} without {name}; {WHAT}")
        with path.open("rb") as file:
            found = hashlib.sha256()
            while block := file.read(1 << 20):
                found.update(block)
        if found.hexdigest() != wanted:
            raise ValueError(
                f"satnet: {path} is not SATNet's file: its sha256 is {found.hexdigest()}, not {wanted}; {WHAT}"
            )
        hot = torch.load(path, weights_only=True).numpy()
        if hot.shape != SHAPE:
            raise ValueError(f"satnet: {path} must hold {SHAPE}, got {hot.shape}")
        digits.append(np.where(hot.any(axis=-1), hot.argmax(axis=-1) + 1, 0).reshape(len(hot), -1).astype(np.uint8))
    return Boards(*digits)
