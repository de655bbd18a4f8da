"""Sudoku boards: made, loaded, and how deep they are."""

from .generator import Boards, blanked, generate
from .grid import Grid, grid_of
from .hidden_singles import rounds
from .satnet import load_satnet

__all__ = ["Boards", "Grid", "blanked", "generate", "grid_of", "load_satnet", "rounds"]
