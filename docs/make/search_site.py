"""python docs/make/search_site.py: the built site's search, tried in Chromium; what it finds for words that users ask.

`make docs` has built site/ before. Exit code 1 if a word does not lead to its page, or the page says something on the
console, or asks another host for anything.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from report_cases import browser  # noqa: E402

ASKED = {  # a word, and a page that must be among the first five found
    "error bars": "error-bars.html",
    "through_training": "api/sdi.html",
    "killed": "store.html",
    "stream_top": "api/sdi.html",
    "variance_factor": "new-sketch.html",
    "truncated BPTT": "steps.html",
    "misprint": "theory.html",
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """No line for each request."""


def main() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=ROOT / "site"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    wrong, said, asked = [], [], []
    with browser() as running:
        page = running.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for words, wanted in ASKED.items():
            page.goto(f"{home}index.html?q={words}")
            link = page.locator("a.md-search-result__link")
            link.first.wait_for(state="attached")
            found = [href.split("?")[0].removeprefix(home) for href in link.evaluate_all("all => all.map(a => a.href)")]
            pages = list(dict.fromkeys(href.split("#")[0] for href in found))[:5]
            print(f"{words}: {', '.join(pages)}")
            wrong += [] if wanted in pages else [f"{words!r} does not lead to {wanted}"]
    wrong += [f"console: {text}" for text in said]
    wrong += [f"asked for {url}" for url in asked if not url.startswith((home, "blob:", "data:"))]
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
