"""Figures: what is drawn is what the result says, on the user's axes too; readable, safe, the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from result_cases import make_result

import sdi
from sdi.result.figure_style import BELOW, COLOURS, score_colours
from sdi.result.plot import plot_heatmap
from sdi.scores.standard_error import Z95


def luminance(colour: Any) -> float:
    from matplotlib.colors import to_rgb

    r, g, b = to_rgb(colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_lines_are_drawn_on_the_users_axes_with_bands() -> None:
    ax = Figure().subplots()
    result = make_result()
    assert result.plot(ax=ax, query="q-2", k=3) is ax
    order = np.argsort(-np.abs(result.sdi_values[:, 2]).sum(axis=1))[:3]
    lines = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [line.get_label() for line in lines] == [f"t-{i}" for i in order]
    for line, i, band in zip(lines, order, ax.collections, strict=True):
        assert np.array_equal(line.get_ydata(), result.sdi_values[i, 2])
        edges = band.get_paths()[0].vertices[:, 1]
        assert edges.max() == pytest.approx((result.sdi_values[i, 2] + Z95 * result.arrays["stderr"][i, 2]).max())
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3
    assert "unit of the loss" in ax.get_ylabel()
    assert "step" in ax.get_xlabel()


def test_small_multiples_share_one_scale_and_the_last_axes_show_all() -> None:
    result = make_result()
    *axes, energy = result.plot(query="q-0", k=4)
    assert len(axes) == 4
    assert len({ax.get_ylim() for ax in axes}) == 1
    heights = [bar.get_height() for bar in energy.patches]
    expected = [np.maximum(result.sdi_values[:, 0], 0).sum(axis=0), np.minimum(result.sdi_values[:, 0], 0).sum(axis=0)]
    assert np.allclose(heights, np.concatenate(expected))


def test_a_heatmap_is_sorted_and_one_large_cell_does_not_hide_the_others() -> None:
    values = np.full((4, 3), 0.01)
    values[2, 1], values[3] = 1.0, -0.03
    ax = plot_heatmap(values, ["a", "b", "c", "d"], "x", "query")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["c", "d", "a", "b"]
    (image,) = ax.images
    assert np.array_equal(image.get_array(), values[[2, 3, 0, 1]])
    shades = image.norm(np.array([-1.0, -0.02, 0.0, 0.01, 1.0]))
    assert shades[[0, 2, 4]].tolist() == [0, 0.5, 1]
    assert shades[3] - 0.5 > 0.04  # a hundredth of the largest is a tenth of the way, not a hundredth
    linear = (np.array([0.01]) + 1) / 2
    assert linear[0] - 0.5 < 0.04  # what a linear scale would give
    marks = ax.collections[0].get_offsets()
    assert {tuple(at) for at in np.asarray(marks)} == {(1.0, 1.5), (2.0, 1.5), (3.0, 1.5)}  # the negative row


def test_colours_survive_print_and_colour_blindness() -> None:
    shades = sorted(luminance(c) for c in COLOURS[:5])  # as many as lines on one axes usually; dashes differ, too
    assert min(np.diff(shades)) > 0.03
    cmap = score_colours(np.ones((1, 1)))["cmap"]
    assert luminance(cmap(0.5)) - max(luminance(cmap(0.0)), luminance(cmap(1.0))) > 0.5
    assert luminance(BELOW) - luminance(cmap(1.0)) > 0.1
    # Without red (protanopia) or green (deuteranopia), the ends still differ in blue.
    assert cmap(1.0)[2] - cmap(0.0)[2] > 0.5


@pytest.mark.parametrize("kind", ["trajectories", "heatmap"])
def test_a_figure_for_a_paper_fits_a_column_and_is_the_same_every_time(kind: str, tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    for ending in ("png", "svg", "pdf"):
        first, second = (tmp_path / f"{name}.{ending}" for name in "ab")
        axes = make_result().plot(first, k=2, kind=kind, style="paper")
        make_result().plot(second, k=2, kind=kind, style="paper")
        assert first.read_bytes() == second.read_bytes()
        one = axes[0] if isinstance(axes, list) else axes
        assert one.figure.get_size_inches()[0] == pytest.approx(3.33)
        assert one.title.get_fontsize() == 7
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(ValueError, match=r"style must be one of .*, got 'poster'"):
        make_result().plot(style="poster")
    with pytest.raises(ValueError, match=r"kind must be one of .*, got 'pie'"):
        make_result().plot(kind="pie")


def test_ids_are_no_formulas(tmp_path: Path) -> None:
    result = make_result()
    names = (r"$\frac{", "_hidden", "a$b$", "", "x" * 90)
    result = sdi.Result(result.mode, {**result.labels, "train": names}, result.arrays, result.info)
    for kind in ("trajectories", "heatmap"):
        axes = result.plot(tmp_path / "p.svg", kind=kind, k=5)
    assert {t.get_text().replace("\\$", "$") for t in axes.get_yticklabels()} >= {r"$\frac{", " _hidden", "a$b$", "''"}
