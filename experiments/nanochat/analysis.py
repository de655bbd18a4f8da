"""analyse: influence of one stage over horizons, under full BPTT and under the model's own truncation, and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.inputs.checkpoints import find_checkpoints

from ..base import telling, wilson
from .answers import answered
from .chat import Chat
from .growth import align, fit_growth, spread_over_steps
from .influence import profiles_at
from .model import model_with
from .settings import Settings

Array = np.ndarray
Say = Callable[[str], None]


def analyse(
    chat: Chat, settings: Settings, checkpoints: Sequence[Path], store: Path, say: Say = lambda words: None
) -> dict[str, Any]:
    """What is said of one stage, as plain values.

    chat: the conversations. settings: with the stage. checkpoints: of the stage. store: a folder for features.
    say: called with lines of progress.
    """
    s = settings
    whole: dict[int, Array] = {}
    out: dict[str, Any] = {}
    for tau in s.horizons:
        seen: dict[str, Any] = {}
        for truncated in (False, True):
            if truncated and tau <= s.bptt:  # nothing is cut
                seen["truncated"] = seen["whole"]
                continue
            name = f"{'truncated' if truncated else 'whole'}-{tau}"
            tell = telling(say, f"{s.stage}: influence, {name}")
            found = profiles_at(tau, truncated, chat, checkpoints, s.stage == "mid", store / name, tell)
            seen[name.split("-")[0]] = spread_over_steps(found, s.draws, s.seed)
            if not truncated:
                whole[tau] = found
        out[str(tau)] = {**seen, "growth": fit_growth(whole[tau], s.draws, s.seed)}
    return {
        "horizons": out,
        "alignment": align(whole, s.draws, s.seed),
        "accuracy": accuracy(chat, s, checkpoints[-1]),
    }


def accuracy(chat: Chat, settings: Settings, checkpoint: Path) -> dict[str, Any]:
    """The share of held-out problems that are answered rightly, with its interval, by the number of loop steps."""
    weights = find_checkpoints([checkpoint])[-1].weights()
    model = model_with(settings, weights)
    some = chat.corpus.test["problems"][: settings.checked]
    return {str(tau): wilson(answered(model, some, chat.tokenizer, tau)) for tau in settings.horizons}
