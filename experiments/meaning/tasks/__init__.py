"""What is trained and asked in the meaning experiment: parity, a small Sudoku, a small looped language model."""

from ..settings import Settings
from . import language, parity, sudoku
from .task import Batch, Task

TASKS = {"parity": parity.TASK, "sudoku": sudoku.TASK, "language": language.TASK}


def task_of(settings: Settings) -> Task:
    """The task of `settings.task`."""
    return TASKS[settings.task]


__all__ = ["TASKS", "Batch", "Task", "task_of"]
