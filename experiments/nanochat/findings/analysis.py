"""What is said of one model: influence over horizons, accuracy, and what its states and steps are like.

Influence is under full BPTT and under the model's own truncation. Growth has rivals that are fitted to the profile
(linear, saturating) and rivals that are told by the model itself (the step's Jacobian, the size of gradients).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.inputs.checkpoints import find_checkpoints

from ...base import telling, wilson
from ..answers import answered
from ..chat import Chat
from ..corpus.token_batches import prompt
from ..influence import profiles_at
from ..model import model_with
from ..settings import Settings
from .growth import align, fit_growth, left_by, spread_over_steps
from .jacobian import jacobians
from .probe import probe, states

Array = np.ndarray
Say = Callable[[str], None]


def analyse(
    chat: Chat, settings: Settings, checkpoints: Sequence[Path], store: Path, say: Say = lambda words: None
) -> dict[str, Any]:
    """Influence of one model over horizons, and its accuracy, as plain values.

    chat: the conversations. settings: with the stage. checkpoints: of the stage. store: a folder for features.
    say: called with lines of progress.
    """
    s = settings
    whole: dict[int, Array] = {}
    out: dict[str, Any] = {}
    told = _jacobians(chat, s, checkpoints[-1])
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
        curves = told["curves"][str(tau)]
        rivals = {name: left_by(whole[tau], np.array(curve), s.draws, s.seed) for name, curve in curves.items()}
        out[str(tau)] = {**seen, "growth": fit_growth(whole[tau], s.draws, s.seed), "told": rivals}
    return {
        "horizons": out,
        "alignment": align(whole, s.draws, s.seed),
        "jacobian": told,
        "probe": _probe(chat, s, checkpoints[-1]),
        "accuracy": accuracy(chat, s, checkpoints[-1]),
    }


def accuracy(chat: Chat, settings: Settings, checkpoint: Path) -> dict[str, Any]:
    """The share of held-out problems that are answered rightly, with its interval, by the number of loop steps."""
    model = _model(settings, checkpoint)
    some = chat.corpus.test["problems"][: settings.checked]
    return {str(tau): wilson(answered(model, some, chat.tokenizer, tau)) for tau in settings.horizons}


def _probe(chat: Chat, settings: Settings, checkpoint: Path) -> dict[str, Any]:
    s = settings
    prompts = [prompt(c.user, chat.tokenizer) for c in chat.corpus.test["problems"][: s.probed]]
    return probe(states(_model(s, checkpoint), prompts, max(s.horizons)), s.draws, s.seed)


def _jacobians(chat: Chat, settings: Settings, checkpoint: Path) -> dict[str, Any]:
    s = settings
    rows = [chat.rendered(c) for c in chat.corpus.test["problems"][: s.jacobians]]
    return jacobians(_model(s, checkpoint), rows, s.horizons, s.iterations, s.seed)


def _model(settings: Settings, checkpoint: Path) -> Any:
    return model_with(settings, find_checkpoints([checkpoint])[0].weights())
