"""What `sdi run config.toml` needs to know: the model, its loss, the training examples and the queries.

python parity_task.py    # trains the model, about half a minute, into training/
sdi run config.toml

The task itself (strings, batches, training) is that of `sdi experiment parity`, in its smallest size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdi.experiments import parity
from sdi.fast import LoopedTransformer

SETTINGS = parity.configuration("demo")


def model() -> Any:
    """The module that the checkpoints' weights fit into."""
    return LoopedTransformer(SETTINGS.model_config())


def loss(model: Any, batch: dict[str, Any]) -> Any:
    """One value per example."""
    return parity.loss(model, batch)


def train() -> list[dict[str, Any]]:
    """Batches of training examples. An example is named by its batch's "id"; here, by its bits."""
    return parity.make_loader(parity.training_sample(SETTINGS))


def query() -> list[dict[str, Any]]:
    """Batches of queries: strings with a pattern, longer than any that was trained on."""
    return parity.make_loader([parity.probe(SETTINGS.test, pattern) for pattern in ("01", "10", "001")])


if __name__ == "__main__":
    trained = parity.train(Path(__file__).parent / "training", SETTINGS)
    strings = parity.held_out(SETTINGS, SETTINGS.test, 100)
    print(
        f"{trained.at.step} steps; {parity.accuracy(trained.averaged(), strings):.1%} of {len(strings)} strings of "
        f"{SETTINGS.test} bits right, none of them trained on"
    )
