"""A small Sudoku: trained on the easiest boards, asked about harder ones, in two halves by their number of blanks."""

from __future__ import annotations

import numpy as np

from sdi.inputs.looped_config import LoopedConfig

from ...sudoku.batches import make_loader
from ...sudoku.boards import Boards, generate, grid_of
from ..settings import Settings
from .task import Batch, Task

SEED = 0  # of the boards


def about(settings: Settings) -> str:
    return f"Sudoku, {settings.size}x{settings.size}, {settings.loops} loop steps"


def model_config(settings: Settings) -> LoopedConfig:
    grid = grid_of(settings.size)
    return LoopedConfig.sudoku(
        vocab=grid.size + 1, classes=grid.size, d=settings.d, heads=settings.heads, tau=settings.loops,
        length=grid.cells, fused_qkv=True,
    )  # fmt: skip


def split(settings: Settings) -> tuple[Boards, Boards]:
    """(the easiest boards, in a random order; the hardest, easier ones first). No board occurs twice."""
    wanted = settings.examples + 2 * settings.queries
    made = generate(2 * wanted, settings.size, SEED)
    _, first = np.unique(made.puzzle, axis=0, return_index=True)
    if len(first) < wanted:
        raise ValueError(f"examples and queries must leave boards that differ: {wanted} asked, {len(first)} found")
    some = made.take(np.sort(first)[:wanted])
    order = np.argsort(some.missing, kind="stable")
    easy = np.random.default_rng([SEED]).permutation(order[: settings.examples])
    return some.take(easy), some.take(order[settings.examples :])


def one_batch(boards: Boards) -> Batch:
    (batch,) = make_loader(boards, batch=len(boards.puzzle))
    return {**batch, "mask": batch["mask"].double()}


def train(settings: Settings) -> Batch:
    return one_batch(split(settings)[0])


def queries(settings: Settings) -> list[Batch]:
    _, hard = split(settings)
    return [one_batch(hard.take(np.arange(settings.queries) + k * settings.queries)) for k in (0, 1)]


TASK = Task(about, model_config, train, queries)
