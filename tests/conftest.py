"""Settings of every test run: one thread, so that parallel runs do not wait; the asserts of helpers are explained."""

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite(*(path.stem for path in (Path(__file__).parent / "helpers").glob("*.py")))


@pytest.fixture(autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
