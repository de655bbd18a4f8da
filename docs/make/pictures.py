"""python docs/make/pictures.py REPORT.html: docs/pictures/report.png and report-phone.png, as Chromium shows a report.

REPORT.html: that of examples/looped_lm (`sdi report config.toml --by-group runs/documents.csv` there).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from report_cases import Opened, browser  # noqa: E402

QUERY = "question[30]"


def take(report: Path, folder: Path) -> None:
    """Write both pictures of a report to a folder."""
    with browser() as running:
        for name, width, height, scheme in (("report", 1180, 900, "light"), ("report-phone", 390, 1500, "dark")):
            opened = Opened(running, report, width=width, color_scheme=scheme)
            page = opened.page
            place = page.evaluate(f"String(DATA.query.ids.indexOf({QUERY!r}))")
            opened.drawn_after(lambda p=page, q=place: p.select_option("#query", q))
            page.evaluate("document.activeElement.blur()")
            top = page.evaluate("document.querySelector('#controls').getBoundingClientRect().top + window.scrollY")
            clip = {"x": 0, "y": top, "width": width, "height": height}
            page.screenshot(path=folder / f"{name}.png", full_page=True, clip=clip)


if __name__ == "__main__":
    take(Path(sys.argv[1]).resolve(), ROOT / "docs" / "pictures")
