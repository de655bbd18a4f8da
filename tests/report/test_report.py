"""What a report's file holds: the result's numbers, texts that are no HTML, and a word on what is left out."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import World
from paths import ROOT
from PIL import Image
from report_cases import ATTACKS, hostile_batches, hostile_result, hostile_show, only_steps
from result_cases import make_result

import sdi
from sdi.report import collect as collecting
from sdi.report import page
from sdi.report.charts import CHARTS
from sdi.report.examples import as_shown
from sdi.report.facts import audit_words


@pytest.fixture(autouse=True)
def _without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes seconds to put together; only the browser needs it."""
    monkeypatch.setattr(page, "library", lambda: base64.b64encode(gzip.compress(b"", mtime=0)).decode())


def data_of(path: Path) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), flags=re.S)
    found: dict[str, Any] = json.loads(text)
    return found


def unpacked(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(shape)


@pytest.mark.parametrize("mode", ["query", "train", "matrix"])
def test_the_numbers_are_those_of_the_result(mode: str, tmp_path: Path) -> None:
    result = make_result(mode)
    found = data_of(sdi.write_report(tmp_path / "r.html", result))
    n, q, tau = len(result.labels["train"]), len(result.labels["query"]), len(result.labels["step"])
    sdi_values, errors = result.sdi_values, result.arrays["stderr"]
    if mode == "matrix":
        sdi_values, errors = sdi_values.sum(axis=2), errors.sum(axis=2)
        some = found["matrix"]["of"]["1"]
        assert len(some) == 5
        for k, text in some.items():
            assert np.allclose(unpacked(text, tau, tau), result.sdi_values[int(k), 1], rtol=1e-6)
    assert found["train"]["ids"] == list(result.labels["train"])
    assert np.allclose(unpacked(found["sdi"], n, q, tau), sdi_values, rtol=1e-6)
    assert np.allclose(unpacked(found["stderr"], n, q, tau), errors, rtol=1e-6)
    assert np.allclose(unpacked(found["tracin"], n, q), result.tracin_values, rtol=1e-5)
    energy = sum(unpacked(text, q, tau) for text in found["energy"].values())
    assert np.allclose(energy, np.abs(sdi_values).sum(axis=0), rtol=1e-5)
    if mode != "matrix":
        for name in ("late_mass", "horizon"):
            assert np.allclose(found["summary"][name], result.summary()[name].values)


def test_energy_is_split_by_group(tmp_path: Path) -> None:
    result = make_result()
    groups = {i: "ab"[k % 2] for k, i in enumerate(result.labels["train"])}
    found = data_of(sdi.write_report(tmp_path / "r.html", result, groups=groups))
    for name, part in result.summary_by_group(groups).items():
        assert np.allclose(unpacked(found["energy"][name], 3, 4), part["energy"].values, rtol=1e-5)
    with pytest.raises(ValueError, match="groups must name every training example; 't-0' has none"):
        sdi.write_report(tmp_path / "s.html", result, groups={"t-1": "a"})
    assert not (tmp_path / "s.html").exists()


def test_parts_of_the_strongest_come_from_the_store(tmp_path: Path) -> None:
    world = World(tmp_path)
    result = world.attribute(store=tmp_path / "store")
    store, points = sdi.Store(tmp_path / "store"), sdi.find_checkpoints(world.paths)
    found = data_of(sdi.write_report(tmp_path / "r.html", result, store=store, checkpoints=points))
    query = str(result.labels["query"][1])
    for k, text in found["parts"]["of"]["1"].items():
        train = found["train"]["ids"][int(k)]
        values = unpacked(text, len(store.blocks), len(result.labels["step"]))
        assert np.allclose(values.sum(axis=0), result.sdi.sel(train=train, query=query).values, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="checkpoints must name those of the store"):
        sdi.write_report(tmp_path / "s.html", result, store=store)


def test_more_than_a_page_holds_is_cut_to_the_strongest_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "CELLS", 20 * 6 * 6)
    result = hostile_result(n=50)
    found = data_of(sdi.write_report(tmp_path / "r.html", result))
    assert len(found["train"]["ids"]) == 20
    assert found["train"]["all"] == 50
    assert any("20 of 50 training examples" in words for words in found["left_out"])
    for query in result.labels["query"]:
        mass = np.abs(result.sdi.sel(query=query).values).sum(axis=1)
        assert str(result.labels["train"][int(mass.argmax())]) in found["train"]["ids"]
    few = data_of(sdi.write_report(tmp_path / "s.html", result, queries=["q-0"]))
    assert few["query"]["ids"] == ["q-0"]
    assert len(few["train"]["ids"]) == 50


def test_no_text_becomes_html_whatever_it_holds(tmp_path: Path) -> None:
    result = hostile_result()
    loaders = {side: hostile_batches(result.labels[side]) for side in ("train", "query")}
    groups = {i: ATTACKS[k % 5] for k, i in enumerate(result.labels["train"])}
    path = sdi.write_report(tmp_path / "r.html", result, groups=groups, show=hostile_show, title=ATTACKS[0], **loaders)
    html = path.read_text()
    for attack in ATTACKS[:4]:
        assert attack not in html
    assert html.count("<script") == html.count("</script>") == 4
    assert len(re.findall(r"<(img|iframe|svg)", html)) == 0
    assert data_of(path)["train"]["ids"][:3] == list(ATTACKS[:3])
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "http" not in policy


def test_an_id_without_a_letter_can_be_seen_and_chosen(tmp_path: Path) -> None:
    result = make_result()
    names = ("", " ", *result.labels["train"][2:])
    result = sdi.Result(result.mode, {**result.labels, "train": names}, result.arrays, result.info)
    found = data_of(sdi.write_report(tmp_path / "r.html", result))
    assert found["train"]["ids"][:2] == ["", " "]
    assert found["train"]["names"][:2] == ["''", "' '"]


@pytest.mark.parametrize("name", ["parity", "sudoku", "looped_lm"])
def test_the_reports_of_the_docs_are_of_todays_page(name: str) -> None:
    """docs/results.md has the command that writes each anew."""
    written = (ROOT / "docs" / "results" / name / "report.html").read_text(encoding="utf-8")
    scripts = ("examples.js", "table.js", "page.js", "page.css")
    for part in (*((page.PAGE / each).read_text(encoding="utf-8") for each in scripts), page.as_json(CHARTS)):
        assert part in written, "write it anew: docs/results.md says how"
    assert len(written) < 5_000_000


def test_the_pages_own_script_parses_no_html() -> None:
    scripts = "".join((page.PAGE / name).read_text() for name in ("examples.js", "table.js", "page.js"))
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "http"):
        assert word not in scripts


def test_the_same_result_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = (sdi.write_report(tmp_path / name, make_result()).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_every_chart_compiles(recwarn: pytest.WarningsRecorder) -> None:
    from vl_convert import vegalite_to_vega

    values = {"$height": 100, "$low": -1, "$high": 1, "$least": -1, "$most": 1, "$groups": ["a"]}

    def filled(spec: Any) -> Any:
        if isinstance(spec, dict):
            return {key: filled(part) for key, part in spec.items()}
        if isinstance(spec, list):
            return [filled(part) for part in spec]
        return values.get(spec, spec) if isinstance(spec, str) else spec

    for spec in CHARTS.values():
        drawn = vegalite_to_vega({**filled(spec), "data": {"values": [{"step": 1, "score": 1.0}]}})
        assert drawn["marks"]


def test_what_show_may_return() -> None:
    assert as_shown("a\tb\x1b[2J\u202e", "i") == {"text": "a\tb\\x1b[2J\\u202e"}
    assert as_shown("x" * 5000, "i")["text"].endswith("… (5,000 characters)")
    assert as_shown(["a", "b"], "i") == {"tokens": ["a", "b"]}
    for bad in (3, object(), [], [["a"], ["b", "c"]], [("a", "b", "c")], ["a", 1], {"a": 1}):
        with pytest.raises(TypeError, match=r"show must return .* for example 'i'"):
            as_shown(bad, "i")
    with pytest.raises(ValueError, match="PNG, JPEG, GIF or WebP file; for example 'i'"):
        as_shown(b"<svg onload=alert(1)>", "i")
    with pytest.raises(ValueError, match="at most 200,000 bytes, got 200,008"):
        as_shown(b"\x89PNG\r\n\x1a\n" + bytes(200_000), "i")
    with pytest.raises(TypeError, match="must be uint8 of shape"):
        as_shown(np.zeros((2, 2)), "i")
    with pytest.raises(ValueError, match="not finite"):
        as_shown([("a", float("nan"))], "i")


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 3), (3, 5, 4)])
def test_an_array_becomes_a_png_with_its_pixels(shape: tuple[int, ...], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    head, text = as_shown(pixels, "i")["image"].split(",")
    assert head == "data:image/png;base64"
    (tmp_path / "p.png").write_bytes(base64.b64decode(text))
    assert (np.asarray(Image.open(tmp_path / "p.png")) == pixels).all()


def test_show_sees_one_example_at_a_time_and_only_those_on_the_page(tmp_path: Path) -> None:
    result = make_result()
    seen: list[Any] = []

    def show(example: Any) -> str:
        seen.append(example["id"])
        assert example["x"].shape == (2,)
        return f"row {example['x'][0]}"

    ids = list(result.labels["train"])
    batches = [{"id": ["other", *ids], "x": np.arange(12).reshape(6, 2)}]
    found = data_of(sdi.write_report(tmp_path / "r.html", result, show=show, train=batches))
    assert seen == ids
    assert found["shown"]["train"]["t-1"] == {"text": "row 4"}


def test_what_is_refused_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode='tracin'"):
        sdi.write_report(tmp_path / "r.html", make_result("tracin"))
    with pytest.raises(ValueError, match="no query 'q-9'"):
        sdi.write_report(tmp_path / "r.html", make_result(), queries=["q-9"])
    with pytest.raises(ValueError, match="there is no folder"):
        sdi.write_report(tmp_path / "none" / "r.html", make_result())
    large = hostile_result(n=40)
    batches = hostile_batches(large.labels["train"])
    picture = b"\x89PNG\r\n\x1a\n" + bytes(199_000)
    with pytest.raises(ValueError, match="must have less than 5"):
        sdi.write_report(tmp_path / "r.html", large, show=lambda example: picture, train=batches)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("audit", "passed"), [("first", True), ("every", True), ("off", False), (None, None)])
def test_the_audits_verdict_is_the_runs(audit: str | None, passed: bool | None) -> None:
    result = only_steps(hostile_result(), 2)
    result.info["settings"]["audit"] = audit
    assert audit_words(result)["passed"] is passed
