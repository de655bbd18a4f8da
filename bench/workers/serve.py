"""The worker's side of `Remote`: one JSON question a line, one answer a line."""

from __future__ import annotations

import json
import sys


def serve(worker: object) -> None:
    """Call the method that each question names, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not spoil an answer
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"ok": True, **getattr(worker, question.pop("do"))(**question)}
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
