"""A report with everything in it, hostile texts included, and the browser that opens it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdi import Result

ATTACKS = (
    "<img src=x onerror=\"window.hacked='onerror'\">",
    "</script><script>window.hacked='script'</script>",
    "<svg onload=\"window.hacked='svg'\"><title>a</title></svg>",
    '"><iframe src="javascript:window.parent.hacked=\'frame\'"></iframe>',
    "{{script}} ${window.hacked=1} $most <!-- \u2028 ]]>",
)
HOW = (
    "Chromium is missing, in which reports are tested: `make browser` installs it (apt-get install chromium, or else "
    "python -m playwright install --with-deps chromium); SDI_CHROMIUM may name its program"
)


def hostile_result(mode: str = "query", n: int = 40, tau: int = 6) -> Result:
    """Random scores whose ids, notes and checkpoints are HTML and scripts; of two checkpoints and six queries."""
    rng = np.random.default_rng(0)
    q = len(ATTACKS) + 1
    labels: dict[str, tuple[Any, ...]] = {
        "checkpoint": ("a", ATTACKS[0]),
        "train": (*ATTACKS, *(f"t-{k}" for k in range(n - len(ATTACKS)))),
        "query": ("q-0", *ATTACKS),
        "step": tuple(range(1, tau + 1)),
        **({"train_step": tuple(range(1, tau + 1))} if mode == "matrix" else {}),
    }
    main = (n, q, *([tau, tau] if mode == "matrix" else [tau]))
    arrays = {
        "by_checkpoint": rng.normal(size=(2, *main)),
        "outside": np.zeros((n, q)),
        "stderr": 0.1 * np.abs(rng.normal(size=main)),
        "tracin_stderr": np.full((n, q), 0.2),
        "tau": np.full(n if mode == "train" else q, tau),
        "loss": 1 + rng.random((2, q)),
    }
    info = {"settings": {"m": 8, "audit": "first"}, "notes": [ATTACKS[1]], "eta": {"a": 0.1}}
    return Result(mode, labels, arrays, info)


def hostile_batches(ids: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [{"id": list(ids), "x": np.arange(len(ids))}]


def hostile_show(example: dict[str, Any]) -> Any:
    """A text, tokens with values, a board, a picture, or nothing; in turn."""
    attack = ATTACKS[int(example["x"]) % len(ATTACKS)]
    kinds = (attack, [(attack, 1.0), ("b", -0.5)], [[attack, "2"], ["3", ""]], np.zeros((4, 5, 3), np.uint8), None)
    return kinds[int(example["x"]) % 5]


def only_steps(result: Result, tau: int) -> Result:
    """The result with its first steps alone."""
    cut = {name: a[..., :tau] if name in ("by_checkpoint", "stderr") else a for name, a in result.arrays.items()}
    return replace(result, labels={**result.labels, "step": tuple(range(1, tau + 1))}, arrays=cut)


def find_chromium() -> str:
    """The path of a Chromium; without one, tests fail where CI is set, and are skipped elsewhere."""
    names = (os.environ.get("SDI_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as p:
            found = p.chromium.executable_path if Path(p.chromium.executable_path).exists() else None
    if found is None:
        pytest.fail(HOW) if os.environ.get("CI") else pytest.skip(HOW)
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    path = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        running = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


class Opened:
    """A page that was opened and drawn: what it said on the console, and what it asked of the network."""

    def __init__(self, running: Any, path: Path, width: int = 1280, **options: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = running.new_page(viewport={"width": width, "height": 900}, **options)
        self.page.set_default_timeout(30_000)
        self.page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn='1']")

    def drawn_after(self, act: Any) -> None:
        """Do something, and wait until the page has drawn itself anew."""
        before = int(self.page.get_attribute("html", "data-drawn"))
        act()
        self.page.wait_for_function(f"Number(document.documentElement.dataset.drawn) > {before}")

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found
