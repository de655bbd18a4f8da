"""A pytest plugin: `-p sdi.testing.plugin`, or in the top conftest.py `pytest_plugins = ["sdi.testing.plugin"]`.

    @pytest.mark.sdi_statistical(alpha=1e-6)
    def test_mine_is_unbiased(sdi_seed):
        assert_unbiased(Mine, seed=sdi_seed, alpha=1e-6)

`--sdi-seed N` moves all such tests to other draws (assertions without a seed follow it, too); the header says which
seed is in use, a failure says how to repeat it, and the end says how often this set of tests is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sdi.testing.seed import current_seed, set_seed

MARKER = "sdi_statistical"
BEFORE = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("sdi").addoption(
        "--sdi-seed", type=int, default=0, metavar="N", help="where the draws of statistical tests begin (0)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(alpha): fails by chance with probability alpha at most, over seeds")
    config.stash[BEFORE] = current_seed()
    set_seed(config.getoption("--sdi-seed"))


def pytest_unconfigure(config: pytest.Config) -> None:
    set_seed(config.stash[BEFORE])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker(MARKER)
        if marker is not None and not 0 < _alpha(marker) < 1:
            raise pytest.UsageError(f"{item.nodeid}: {MARKER} needs alpha=..., between 0 and 1")


def pytest_report_header(config: pytest.Config) -> str:
    return f"sdi: seed {current_seed()} (--sdi-seed)"


@pytest.fixture
def sdi_seed() -> int:
    """The seed of this run."""
    return current_seed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    marker = item.get_closest_marker(MARKER)
    if marker is not None and call.when == "call":
        alpha = _alpha(marker)
        report.user_properties.append((MARKER, alpha))
        if report.failed:
            again = f"pytest '{item.nodeid}' --sdi-seed {current_seed()}"
            report.sections.append(
                ("sdi", f"statistical: a right answer fails with probability at most {alpha:g}\nrepeat with: {again}")
            )
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """From the reports, so that it also counts those of other processes (pytest-xdist)."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    alphas = [value for r in reports for key, value in getattr(r, "user_properties", ()) if key == MARKER]
    if alphas:
        terminalreporter.write_line(
            f"sdi: {len(alphas)} statistical tests, seed {current_seed()}; "
            f"any of them fails by chance with probability at most {sum(alphas):.1g}"
        )


def _alpha(marker: pytest.Mark) -> float:
    alpha = marker.kwargs.get("alpha", marker.args[0] if marker.args else None)
    return float(alpha) if isinstance(alpha, (int, float)) else 0.0
