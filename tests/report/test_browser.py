"""Reports in a real browser: they load without a word or a request, redraw, sort, work by keyboard, and run no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from report_cases import ATTACKS, Opened, browser, find_chromium, hostile_batches, hostile_result, hostile_show

import sdi

pytestmark = pytest.mark.slow
GROUPS = (ATTACKS[0], "plain")


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a result of mode "matrix", so that it has step by step as well; groups, texts, pictures, boards, tokens."""
    result = hostile_result("matrix")
    groups = {i: GROUPS[k % 2] for k, i in enumerate(result.labels["train"])}
    path = tmp_path_factory.mktemp("report") / "report.html"
    return sdi.write_report(
        path,
        result,
        groups=groups,
        show=hostile_show,
        train=hostile_batches(result.labels["train"]),
        query=hostile_batches(result.labels["query"]),
        title=ATTACKS[1],
    )


@pytest.fixture(scope="module")
def opened(running: Any, report: Path) -> Opened:
    return Opened(running, report)


@pytest.mark.parametrize(("ci", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_chromium_it_fails_in_ci_and_is_skipped_elsewhere(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {"CI": ci, "PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SDI_CHROMIUM", raising=False)
    with pytest.raises(outcome, match="`make browser` installs it"):
        find_chromium()


def column(page: Any, number: int) -> list[str]:
    texts: list[str] = page.locator(f"#table tbody tr td:nth-child({number})").all_inner_texts()
    return texts


def value(text: str) -> float:
    return float(text.replace("−", "-").replace("+", "").replace("%", ""))


def test_it_loads_without_a_word_or_a_request_and_draws_every_chart(opened: Opened, report: Path) -> None:
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    assert report.stat().st_size < 5_000_000
    titles = opened.texts("#panels h3")
    assert titles == ["Trajectories", "Training examples × steps", "Energy by group", "Horizon", "Cancellation",
                      "Proponents", "Opponents", "Step × step"]  # fmt: skip
    assert opened.page.locator("#panels svg.marks").count() == 6 + 5
    assert "Passed" in opened.texts("#audit")[0]
    assert not opened.page.locator("#wait").count()


def test_choosing_a_query_redraws(opened: Opened) -> None:
    page = opened.page
    before = page.locator("#panels svg.marks").nth(0).inner_html()
    opened.drawn_after(lambda: page.select_option("#query", "2"))
    assert page.locator("#panels svg.marks").nth(0).inner_html() != before
    assert page.locator(".panel").get_attribute("data-query") == ATTACKS[1]
    opened.drawn_after(lambda: page.select_option("#query", "0"))
    assert page.locator("#panels svg.marks").nth(0).inner_html() == before


def test_two_queries_stand_side_by_side_on_their_own_scales_or_on_one(opened: Opened) -> None:
    page = opened.page
    opened.drawn_after(lambda: page.select_option("#beside", "3"))
    boxes = [page.locator(".panel").nth(k).bounding_box() for k in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]

    def ticks(panel: int) -> list[str]:
        return opened.texts(f".panel:nth-child({panel}) .multiple >> nth=0 >> .mark-text.role-axis-label text")

    own = ticks(1), ticks(2)
    opened.drawn_after(lambda: page.check("#same"))
    assert ticks(1) == ticks(2)
    assert own != (ticks(1), ticks(2))
    opened.drawn_after(lambda: page.uncheck("#same"))
    opened.drawn_after(lambda: page.select_option("#beside", "-1"))
    assert page.locator(".panel").count() == 1


@pytest.mark.parametrize("steps", [None, slice(2, 4)])
def test_proponents_opponents_and_the_table_say_what_the_result_says(opened: Opened, steps: slice | None) -> None:
    page, result = opened.page, hostile_result("matrix")
    sdi_values = result.sdi_values.sum(axis=2)[:, 0]
    scores = sdi_values.sum(axis=1) if steps is None else sdi_values[:, steps.start - 1 : steps.stop].sum(axis=1)
    if steps is not None:
        opened.drawn_after(lambda: (page.fill("#first", "2"), page.keyboard.press("Tab")))
        opened.drawn_after(lambda: (page.fill("#last", "4"), page.keyboard.press("Tab")))
    best = sorted(range(len(scores)), key=lambda k: -scores[k])
    found = opened.texts(".panel section:has(h3:text-is('Proponents')) .id")
    names = page.evaluate("DATA.train.names")
    assert found == [names[k] for k in best[:4]]
    assert opened.texts(".panel section:has(h3:text-is('Opponents')) .id") == [names[k] for k in best[::-1][:4]]
    shown = dict(zip((name.split("\n")[0] for name in column(page, 1)), column(page, 2), strict=True))
    for k in range(5, len(scores)):
        assert value(shown[names[k]]) == pytest.approx(scores[k], rel=1e-3, abs=1e-4)
    if steps is not None:
        opened.drawn_after(lambda: (page.fill("#first", "1"), page.keyboard.press("Tab")))
        opened.drawn_after(lambda: (page.fill("#last", "6"), page.keyboard.press("Tab")))


def test_sorting_sorts_and_filtering_filters(opened: Opened) -> None:
    page = opened.page
    for _ in range(2):
        page.click("#table button[data-key=score]")
        order = page.locator("#table th:has(button[data-key=score])").get_attribute("aria-sort")
        found = [value(text) for text in column(page, 2)]
        assert found == sorted(found, reverse=order == "descending")
    page.click("#table button[data-key=name]")
    plain = [name for name in column(page, 1) if re.match(r"t-\d+$", name.split("\n")[0])]
    assert [int(name.split("\n")[0][2:]) for name in plain] == sorted(int(n.split("\n")[0][2:]) for n in plain)
    page.fill("#filter", "t-3")
    assert {name.split("\n")[0] for name in column(page, 1)} == {"t-3", "t-30", "t-31", "t-32", "t-33", "t-34"}
    assert "6 of 40" in opened.texts("#count")[0]
    page.fill("#filter", "")


def test_it_works_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.locator("#theme").focus()
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "query":
            break
    assert page.evaluate("document.activeElement.id") == "query"
    opened.drawn_after(lambda: page.keyboard.press("ArrowDown"))
    assert page.evaluate("[document.activeElement.id, state.query]") == ["query", 1]
    opened.drawn_after(lambda: page.keyboard.press("ArrowUp"))
    page.locator("#table button[data-key=late]").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "late"
    assert page.evaluate("TABLE.column") == "late"
    page.keyboard.press("Tab")
    page.locator("#table tbody tr:last-child button").focus()
    opened.drawn_after(lambda: page.keyboard.press("Enter"))
    assert page.evaluate("state.train") == int(page.locator("#table tr[aria-selected=true]").get_attribute("data-k"))


def test_hovering_says_the_values(opened: Opened) -> None:
    page = opened.page
    heat = page.locator("section:has(h3:text-is('Training examples × steps')) svg .mark-rect path").first
    heat.scroll_into_view_if_needed()
    heat.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert re.search(r"training example.*step.*influence.*± 95%", tip.inner_text(), flags=re.S)


def test_text_from_examples_and_ids_runs_nowhere(opened: Opened) -> None:
    page = opened.page
    for query in (1, 2, 3, 4, 5, 0):
        opened.drawn_after(lambda q=query: page.select_option("#query", str(q)))
    for k in range(6):
        opened.drawn_after(lambda k=k: page.select_option("#train", str(k)))
    rect = page.locator("section:has(h3:text-is('Training examples × steps')) svg .mark-rect path").first
    rect.hover()
    assert page.evaluate("window.hacked") is None
    assert page.locator("iframe").count() == 0
    assert {src[:22] for src in page.evaluate("[...document.images].map(i => i.src)")} == {"data:image/png;base64,"}
    assert page.locator("script").count() == 4
    assert page.title() == ATTACKS[1]
    assert page.locator("h1").inner_text() == ATTACKS[1]
    assert ATTACKS[0] in page.locator("body").inner_text()
    assert opened.said == []  # the policy would have spoken, had HTML been parsed
    assert len(opened.asked) == 1


def test_a_long_id_does_not_make_a_phone_scroll_sideways(running: Any) -> None:
    """Parity's queries are strings of 40 digits, with no place to break them."""
    opened = Opened(running, ROOT / "docs" / "results" / "parity" / "report.html", width=390)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(running: Any, report: Path, scheme: str, tmp_path: Path) -> None:
    opened = Opened(running, report, width=390, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    back = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back))) < 200) == (scheme == "dark")
    cells = opened.page.evaluate(
        "[...document.querySelectorAll('.mark-rect path')].map(c => [c.__data__.datum.score, c.getAttribute('fill')])"
    )
    assert sum(score is not None for score, _ in cells) > 100
    for score, fill in (
        (s, f) for s, f in cells if s is not None
    ):  # no hue between orange and blue: on its way to zero, orange does not turn purple
        red, _, blue = map(int, re.findall(r"\d+", fill))
        assert (blue - red) * score >= 0 or abs(blue - red) < 16
    opened.drawn_after(lambda: opened.page.click("#theme"))
    assert opened.page.evaluate("document.documentElement.dataset.theme") != scheme
    assert opened.said == []
    opened.page.close()


def test_tokens_of_a_document_are_coloured_by_their_influence_and_can_be_chosen(running: Any, tmp_path: Path) -> None:
    result = hostile_result(n=8)
    labels = {**result.labels, "query": tuple(f"doc[{k}]" for k in range(1, 7))}
    result = sdi.Result("query", labels, result.arrays, result.info)
    tokens = ["a", "b", "<b>", "d", "e", "f", "g"]
    path = sdi.write_report(tmp_path / "r.html", result, show=lambda e: tokens, query=hostile_batches(labels["query"]))
    opened = Opened(running, path)
    page = opened.page
    buttons = page.locator(".tokens button")
    assert buttons.all_inner_texts() == tokens[1:]
    assert page.locator(".tokens [aria-current]").inner_text() == "b"
    train = page.evaluate("state.train")
    scores = result.tracin_values[train]
    colours = page.evaluate("[...document.querySelectorAll('.tokens button')].map(b => b.style.background)")
    assert ["helps" in c for c in colours] == [bool(s > 0) for s in scores]
    strongest = max(range(6), key=lambda k: abs(scores[k]))
    assert "85%" in colours[strongest]
    opened.drawn_after(lambda: buttons.nth(3).click())
    assert page.locator(".panel").get_attribute("data-query") == "doc[4]"
    assert opened.said == []
    page.close()
