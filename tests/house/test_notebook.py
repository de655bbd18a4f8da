"""examples/first_look.ipynb runs from the top, and shows tables, pictures and the size of its report."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow
NOTEBOOK = ROOT / "examples" / "first_look.ipynb"


@pytest.mark.filterwarnings("default")  # of the notebook's own machinery
def test_the_notebook_runs_and_shows_what_it_says() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    shown = [kind for out in outputs if "data" in out for kind in out["data"]]
    assert shown.count("text/html") == 3  # the coverage, the result and a ranking
    assert shown.count("image/png") == 2
    said = "".join(out.get("text", "") for out in outputs)
    assert "2 parameters, 6 steps" in "".join(out["data"].get("text/html", "") for out in outputs if "data" in out)
    (size,) = re.findall(r"([\d,]+) bytes", said)
    assert 100_000 < int(size.replace(",", "")) < 5_000_000
