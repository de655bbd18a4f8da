"""Models from packages: collected only where these are installed (`make test-models` installs them)."""

from importlib.util import find_spec

import pytest

NEEDED = (
    "transformers", "x_transformers", "HRM", "perceiver_pytorch", "tiny_recursive_model", "peft", "datasets",
    "torch_geometric",
)  # fmt: skip
collect_ignore_glob = [] if all(find_spec(name) for name in NEEDED) else ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/models" in item.nodeid:  # the packages' own warnings are not ours to mend
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.slow)
