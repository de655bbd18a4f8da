"""Settings of every test run: one thread, so that parallel runs do not wait for one another."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
