"""docs/new-sketch.md does what it says: its blocks run in order, and its file can be loaded as it says."""

from __future__ import annotations

import re

import pytest
from paths import ROOT
from test_readme import blocks

from sdi.sketch.load import load_sketch
from sdi.validate import PROPERTIES

pytestmark = pytest.mark.slow


PAGE = "docs/new-sketch.md"


def test_every_block_runs_and_the_file_can_be_loaded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "two_buckets"}
    written = blocks(PAGE, "python")
    for k, block in enumerate(written):
        exec(compile(block, f"{PAGE}, block {k}", "exec"), scope)
    said = capsys.readouterr().out
    assert re.search(r"^variance +fails +the variance .* the claim is", said, flags=re.M)
    assert "(6, 5, 88)" in said  # 64 numbers for the weight, 24 for the bias
    (tmp_path / "two_buckets.py").write_text(written[0])
    (command,) = blocks(PAGE, "shell")
    assert command.split()[:2] == ["sdi", "validate"]
    assert load_sketch(command.split()[2]).__name__ == "TwoBuckets"


def test_the_table_names_every_property_in_its_order():
    text = (ROOT / PAGE).read_text()
    rows = re.findall(r"^\| (\w+) \| ", text, flags=re.M)
    assert rows == ["property", *(p.name for p in PROPERTIES)]
    assert "Seventeen properties" in text
    assert len(PROPERTIES) == 17


def test_other_pages_lead_here():
    assert "(docs/new-sketch.md)" in (ROOT / "README.md").read_text()
    assert "(new-sketch.md)" in (ROOT / "docs/error-bars.md").read_text()
