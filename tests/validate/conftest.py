"""A fixture for tests that are about one size: without it, `sdi validate` spends most of its time on sixteen others."""

from __future__ import annotations

import pytest

from sdi.validate import other_sizes
from sdi.validate.sketch_under_test import LARGE, WIDTHS


@pytest.fixture
def few_other_sizes(monkeypatch):
    """Norms, means and variances are looked at for one odd width and one long row beside the sizes asked for."""
    monkeypatch.setattr(other_sizes, "WIDTHS", WIDTHS[:1])
    monkeypatch.setattr(other_sizes, "LARGE", LARGE[1:2])
