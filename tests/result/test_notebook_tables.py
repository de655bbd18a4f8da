"""What a notebook shows of a Result, a Top, Features and Coverage: their numbers, with every text escaped."""

from __future__ import annotations

import re

import numpy as np
from report_cases import ATTACKS, hostile_result
from result_cases import make_result

from sdi import Features
from sdi.fast.coverage_table import Coverage, Covered
from sdi.sketch.sketch_map import Block


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<td>(.*?)</td>", row, flags=re.S) for row in re.findall(r"<tr>(.*?)</tr>", html, flags=re.S)]


def test_a_result_has_a_row_for_each_query_with_its_strongest_example() -> None:
    result = make_result()
    _, *rows = cells(result._repr_html_())
    assert [row[0] for row in rows] == ["q-0", "q-1", "q-2"]
    for j, row in enumerate(rows):
        i = int(np.abs(result.tracin_values[:, j]).argmax())
        assert row[2] == f"t-{i}"
        assert row[3].startswith(f"{result.tracin_values[i, j]:+.4g} ± ")
        assert len(row[4]) == 4
    assert make_result("tracin")._repr_html_().count("<tr>") == 4
    assert make_result("matrix")._repr_html_().count("<tr>") == 4


def test_a_ranking_says_what_its_text_says() -> None:
    top = make_result().top(3, query="q-1")
    _, *rows = cells(top._repr_html_())
    assert [(row[1], row[2]) for row in rows] == [(r.train, f"{r.score:+.4g}") for r in top]
    assert "query q-1, all steps, by signed" in top._repr_html_()


def test_features_list_their_parameters() -> None:
    blocks = (Block("w", (3, 4), 0, 2), Block("<b>", (2,), 2, 4))
    features = Features(np.ones((5, 3, 4)), np.full(5, 3), blocks, "s")
    _, *rows = cells(features._repr_html_())
    assert rows == [["w", "(3, 4)", "2", f"{3 * np.sqrt(2):.4g}"], ["&lt;b&gt;", "(2,)", "2", f"{3 * np.sqrt(2):.4g}"]]
    assert "5 examples, 3 steps" in features._repr_html_()


def test_no_id_becomes_html() -> None:
    result = hostile_result()
    for shown in (result, *(result.top(40, query=query) for query in result.labels["query"])):
        html = shown._repr_html_()
        assert {tag for tag in re.findall(r"<(/?\w+)", html)} <= {
            "p", "/p", "table", "/table", "thead", "/thead", "tbody", "/tbody", "tr", "/tr", "th", "/th", "td", "/td"
        }  # fmt: skip
        assert not any(attack in html for attack in ATTACKS[:4])


def test_coverage_lists_its_parameters_as_its_text_does() -> None:
    table = Coverage((Covered("core.<b>", (2, 3), "linear", "TensorSketch", ("core",), 8, 1),), 8)
    assert cells(table._repr_html_())[1] == ["core.&lt;b&gt;", "(2, 3)", "linear", "TensorSketch", "8", "1"]
    assert "<p>1 parameters, 8 steps</p>" in table._repr_html_()
    assert str(table).splitlines()[-1] == "1 parameters, 8 steps"
