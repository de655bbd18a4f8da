"""What `sdi run config.toml` needs to know: the model, its loss, the training examples and the queries.

python parity_task.py    # trains the model, about half a minute, into checkpoints/
sdi run config.toml
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdi import parity
from sdi.cli.demo import choose_strings

TASK = parity.Parity()


def model() -> Any:
    """The module that the checkpoints' weights fit into."""
    return TASK.model()


def loss(model: Any, batch: dict[str, Any]) -> Any:
    """One value per example."""
    return parity.loss(model, batch)


def train() -> list[dict[str, Any]]:
    """Batches of training examples. An example is named by its batch's "id"; here, by its bits."""
    return parity.make_loader(choose_strings(TASK, 128))


def query() -> list[dict[str, Any]]:
    """Batches of queries: strings with a pattern, none of them trained on."""
    return parity.make_loader([parity.alternating(TASK.longest, pattern) for pattern in ("01", "10", "001")])


if __name__ == "__main__":
    folder = Path(__file__).parent / "checkpoints"
    folder.mkdir(exist_ok=True)
    trained = parity.train_parity(folder, TASK)
    strings = [s for n in range(6, TASK.longest + 1) for s in parity.held_out(n)]
    print(
        f"{trained.steps} steps; {parity.accuracy(trained.model, strings):.1%} of {len(strings)} held-out strings right"
    )
