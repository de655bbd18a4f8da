"""make_page: one HTML file of the collected numbers, the page's own script and style, and the Vega-Lite library.

Nothing in it can run but what stands here: a Content-Security-Policy names the digests of the page's scripts and allows
no connection of any kind. What comes from users is JSON whose every `<` is escaped, and is drawn as text.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

from sdi.report.charts import CHARTS

PAGE = files("sdi.report") / "page"


def make_page(title: str, data: dict[str, Any]) -> str:
    """The file's content. title: a text. data: JSON values, as `collect` gives them, with "shown" examples."""
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("examples.js", "table.js", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "title": html.escape(title),
        "policy": (
            f"default-src 'none'; script-src 'sha256-{digest}' 'unsafe-eval'; style-src 'unsafe-inline'; "
            "img-src data: blob:; base-uri 'none'; form-action 'none'"
        ),
        "style": (PAGE / "page.css").read_text(encoding="utf-8"),
        "data": as_json(data),
        "charts": as_json(CHARTS),
        "library": library(),
        "script": script,
    }
    out, rest = [], (PAGE / "page.html").read_text(encoding="utf-8")
    while "{{" in rest:  # each place once, from left to right: what is put in is not looked at again
        before, _, rest = rest.partition("{{")
        name, _, rest = rest.partition("}}")
        out += [before, parts[name]]
    return "".join([*out, rest])


def as_json(value: Any) -> str:
    """JSON that can stand in an HTML script element, whatever the texts in it.

    >>> as_json("</script><!--")
    '"\\\\u003c/script>\\\\u003c!--"'
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed as one script: gzip, then base64. The browser unpacks it."""
    try:
        from vl_convert import javascript_bundle
    except ImportError:
        raise ImportError("a report needs vl-convert-python: pip install 'sdi-influence[report]'") from None
    return base64.b64encode(
        gzip.compress(javascript_bundle("window.vegaEmbed = vegaEmbed;").encode(), 9, mtime=0)
    ).decode()
