"""Figures as PNG files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from sdi.files import write_whole


def new_figure(*args: Any, **kwargs: Any) -> Any:
    """An empty figure of matplotlib, which is an extra of the library. args, kwargs: of its Figure."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which would choose a backend for the whole process
    except ImportError:
        raise ImportError("the figures need matplotlib: pip install 'sdi-influence[plot]'") from None
    return Figure(*args, **kwargs, layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as PNG to `path`, atomically."""
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_whole(path, picture.getvalue())
