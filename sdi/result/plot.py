"""plot: trajectories of the strongest training examples, small multiples or lines on one axes; heatmaps of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.result.figure_style import COLOURS, DASHES, Style, label, new_figure, score_colours, styled, write_figure
from sdi.scores.standard_error import Z95

Array = np.ndarray
INFLUENCE = "influence (unit of the loss)"
MARKED = 1500  # cells of a heatmap whose negative scores are marked, for print


def plot_trajectories(
    sdi: Float[Array, "n tau"],
    stderr: Float[Array, "n tau"],
    train: Sequence[Any],
    query: Any,
    k: int,
    side: str,
    path: Path | None = None,
    ax: Any = None,
    style: str = "screen",
) -> Any:
    """Draw `Result.plot`. train, query: ids. side: whose loop steps are drawn, in words. Returns the axes."""
    order = strongest(sdi, k)
    with styled(style) as look:
        if ax is not None:
            _lines(ax, sdi, stderr, train, order, look)
            ax.set_title(f"query {label(query)}")
            ax.set_xlabel(f"loop step of the {side}")
            return _done(ax, ax.figure, path)
        columns = min(look.columns, len(order))
        rows = -(-len(order) // columns)
        figure = new_figure(look.width, look.height * (rows + 1))
        grid = figure.add_gridspec(rows + 1, columns)
        axes: list[Any] = []
        for place, i in enumerate(order):
            shared = axes[0] if axes else None
            one = figure.add_subplot(grid[place // columns, place % columns], sharex=shared, sharey=shared)
            _band(one, sdi[i], stderr[i], COLOURS[0], look, 0.25)
            one.set_title(label(train[i], look.name))
            one.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= len(order))
            axes.append(one)
        energy = figure.add_subplot(grid[rows, :])
        steps = np.arange(1, sdi.shape[1] + 1)
        energy.bar(steps, np.maximum(sdi, 0).sum(axis=0), color=COLOURS[0], label="helps")
        energy.bar(steps, np.minimum(sdi, 0).sum(axis=0), color=COLOURS[5], label="harms", hatch="///", lw=0)
        energy.axhline(0, color="0.4", lw=0.6)
        energy.set_title(f"all {len(sdi)} training examples")
        energy.legend(frameon=False, fontsize=look.size - 1, ncols=2, borderpad=0)
        energy.set_xlim(0.4, sdi.shape[1] + 0.6)
        energy.set_xlabel(f"loop step of the {side}")
        energy.locator_params(axis="x", integer=True)
        axes[0].locator_params(axis="x", integer=True)
        figure.supylabel(INFLUENCE, fontsize=look.size)
        bands = ", with 95% bands" if stderr.any() else ""
        words = f": the {len(order)} training examples that act most{bands}" if style == "screen" else ""
        figure.suptitle(f"query {label(query, 2 * look.name)}{words}", fontsize=look.size)
        return _done([*axes, energy], figure, path)


def plot_heatmap(
    sdi: Float[Array, "n tau"],
    names: Sequence[Any],
    title: str,
    side: str,
    k: int | None = None,
    path: Path | None = None,
    ax: Any = None,
    style: str = "screen",
) -> Any:
    """Rows of training examples or parameters, the strongest first, and columns of steps. Returns the axes.

    names: of the rows. title: a text without formulas. k: how many rows; by default all.
    """
    order = strongest(sdi, len(sdi) if k is None else k)
    values = sdi[order]
    with styled(style) as look:
        if ax is None:
            figure = new_figure(look.width, 1.1 * look.height + look.cell * len(order))
            axes = figure.subplots()
        else:
            axes, figure = ax, ax.figure
        steps = values.shape[1]
        extent = (0.5, steps + 0.5, len(order), 0)
        drawn = axes.imshow(values, aspect="auto", extent=extent, interpolation="nearest", **score_colours(values))
        if values.size <= MARKED:
            at = np.argwhere(values < -0.02 * np.abs(values).max(initial=0))  # the sign, where there is no colour
            axes.scatter(at[:, 1] + 1, at[:, 0] + 0.5, marker="_", s=6 * look.line, color="0.2", lw=0.4 * look.line)
        axes.set_yticks(np.arange(len(order)) + 0.5, [label(names[i], 2 * look.name) for i in order])
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel(f"loop step of the {side}")
        axes.set_title(title)
        bar = figure.colorbar(drawn, ax=axes, label=INFLUENCE, format="%.2g")
        most = drawn.norm.vmax
        bar.set_ticks([-most, -most / 4, 0, most / 4, most])
        return _done(axes, figure, path)


def strongest(sdi: Float[Array, "n tau"], k: int) -> Array:
    """The k rows with the largest sum of |score|, largest first."""
    return np.argsort(-np.abs(sdi).sum(axis=1), kind="stable")[:k]


def _lines(ax: Any, sdi: Array, stderr: Array, train: Sequence[Any], order: Array, look: Style) -> None:
    """All trajectories on one axes: lines that differ in colour and dashes, their bands thin."""
    for place, i in enumerate(order):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        _band(ax, sdi[i], stderr[i], colour, look, 0.1, label=label(train[i], look.name), ls=dash)
    ax.set_ylabel(INFLUENCE)
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, fontsize=look.size - 1)


def _band(ax: Any, sdi: Array, stderr: Array, colour: str, look: Style, alpha: float, **line: Any) -> None:
    steps, error = np.arange(1, len(sdi) + 1), Z95 * stderr
    ax.axhline(0, color="0.6", lw=0.6)
    ax.fill_between(steps, sdi - error, sdi + error, color=colour, alpha=alpha, lw=0)
    ax.plot(steps, sdi, color=colour, marker="o", ms=2 * look.line, **line)


def _done(axes: Any, figure: Any, path: Path | None) -> Any:
    if path is not None:
        write_figure(figure, path)
    return axes
