"""CHARTS: what the page draws, as Vega-Lite specifications. The page adds the rows, and fills in what begins with "$".

Fields of a row: step, score, low and high (its 95% interval), name (an id), and what a chart adds to these. Colours
come from the page's light or dark theme (`config.range`): blue for scores above zero, orange below, which colour-blind
readers tell apart, and which differ in print.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]
NUMBER = ".4~g"


def hover(*fields: tuple[str, str]) -> list[Spec]:
    """The values that are shown where the pointer is: pairs of a field and its title."""
    return [{"field": f, "title": title, **({"format": NUMBER} if f not in WORDS else {})} for f, title in fields]


WORDS = ("name", "step", "train_step", "query", "parameter", "group")
SCORE = "influence on the step"


def steps(title: str = "$side", field: str = "step", **more: Any) -> Spec:
    """A horizontal axis of loop steps."""
    axis = {"labelAngle": 0, "labelOverlap": "greedy"}
    return {"field": field, "type": "ordinal", "title": title, "axis": axis, **more}


def coloured(title: str = SCORE) -> Spec:
    """Colour by score, from -most over zero to most; by its square root, so that one large cell hides no other."""
    scale = {"type": "sqrt", "domain": ["$least", 0, "$most"], "range": "diverging", "interpolate": "rgb"}
    legend = {"orient": "bottom", "gradientLength": 200, "tickCount": 5, "format": ".3~g", "direction": "horizontal"}
    return {"field": "score", "type": "quantitative", "title": title, "scale": scale, "legend": legend}


TRAJECTORY: Spec = {
    "height": 110,
    "width": "container",
    "layer": [
        {
            "mark": {"type": "area", "opacity": 0.25, "line": False},
            "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}},
        },
        {"mark": {"type": "rule", "opacity": 0.5}, "encoding": {"y": {"datum": 0}, "x": None}},
        {"mark": {"type": "line", "point": {"size": 18, "filled": True}}, "encoding": {"y": {"field": "score"}}},
        {
            "mark": {"type": "rule", "opacity": 0, "strokeWidth": 12},
            "encoding": {
                "y": {"field": "low"},
                "y2": {"field": "high"},
                "tooltip": hover(("step", "step"), ("score", "influence"), ("low", "95%: from"), ("high", "to")),
            },
        },
    ],
    "encoding": {
        "x": steps(title="$title"),
        "y": {
            "type": "quantitative",
            "title": None,
            "scale": {"domain": ["$low", "$high"]},
            "axis": {"tickCount": 4, "format": ".3~g"},
        },
    },
}

HEATMAP: Spec = {
    "width": "container",
    "height": "$height",
    "mark": {"type": "rect", "cursor": "pointer"},
    "encoding": {
        "x": steps(),
        "y": {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 130}},
        "color": coloured(),
        "tooltip": hover(("name", "training example"), ("step", "step"), ("score", "influence"), ("error", "± 95%")),
    },
}

PARTS: Spec = {
    "width": "container",
    "height": "$height",
    "mark": "rect",
    "encoding": {
        "x": steps(),
        "y": {"field": "parameter", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 150}},
        "color": coloured("influence through it"),
        "tooltip": hover(("parameter", "parameter"), ("step", "step"), ("score", "influence")),
    },
}

MATRIX: Spec = {
    "width": "container",
    "height": "$height",
    "mark": "rect",
    "encoding": {
        "x": steps("loop step of the query"),
        "y": {"field": "train_step", "type": "ordinal", "title": "loop step of the training example"},
        "color": coloured("influence"),
        "tooltip": hover(("train_step", "training step"), ("step", "query step"), ("score", "influence")),
    },
}

ENERGY: Spec = {
    "width": "container",
    "height": 140,
    "mark": {"type": "bar"},
    "encoding": {
        "x": steps(),
        "y": {
            "field": "energy",
            "type": "quantitative",
            "title": "sum of |influence|",
            "scale": {"domainMax": "$most"},
            "axis": {"tickCount": 4, "format": ".3~g"},
        },
        "color": {
            "field": "group",
            "type": "nominal",
            "title": None,
            "sort": None,
            "scale": {"domain": "$groups", "range": "category"},
            "legend": {"orient": "top"},
        },
        "tooltip": hover(("group", "group"), ("step", "step"), ("energy", "energy")),
    },
}

HORIZON: Spec = {
    "width": "container",
    "height": 140,
    "layer": [
        {
            "mark": {"type": "line", "interpolate": "step-after", "point": True},
            "encoding": {
                "y": {
                    "field": "share",
                    "type": "quantitative",
                    "title": "share of the energy",
                    "scale": {"domain": [0, 1]},
                    "axis": {"format": ".0%", "tickCount": 4},
                },
                "tooltip": [
                    {"field": "step", "title": "step"},
                    {"field": "share", "title": "acted by then", "format": ".1%"},
                ],
            },
        },
        {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"y": {"datum": 0.9}, "x": None}},
    ],
    "encoding": {"x": steps()},
}

CANCELLATION: Spec = {
    "width": "container",
    "height": 140,
    "mark": {"type": "point", "filled": True, "size": 35, "opacity": 0.7, "cursor": "pointer"},
    "encoding": {
        "x": {
            "field": "mass",
            "type": "quantitative",
            "title": "sum over steps of |influence| (square-root scale)",
            "scale": {"type": "sqrt"},
            "axis": {"tickCount": 5, "format": ".3~g"},
        },
        "y": {
            "field": "cancelled",
            "type": "quantitative",
            "title": "share that cancels",
            "scale": {"domain": [0, 1]},
            "axis": {"format": ".0%", "tickCount": 4},
        },
        "tooltip": [
            *hover(("name", "training example"), ("mass", "sum of |influence|")),
            {"field": "cancelled", "title": "cancels", "format": ".1%"},
        ],
    },
}

CHARTS: dict[str, Spec] = {
    "trajectory": TRAJECTORY,
    "heatmap": HEATMAP,
    "parts": PARTS,
    "matrix": MATRIX,
    "energy": ENERGY,
    "horizon": HORIZON,
    "cancellation": CANCELLATION,
}
