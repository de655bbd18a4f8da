"""readouts: everything that is read from one model on one probe, and from its automaton on strings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .automaton import Automaton
from .forward import read_out, unroll
from .periods import Period, autocorrelation, find_period, jumps, lag_after
from .proxy import Proxy
from .settings import EXTRA, SHORTEST, Settings
from .states import Plane, cycle, kmeans, nearest, recurrence, sequence_period, transitions
from .strings import CALIBRATION, EVALUATION, held_out, parity_of, probe, random_strings, true_period

Array = np.ndarray
STATES = 4  # of the k-means, as in the paper
LAGS = 4  # from SDI peaks to margin jumps that are looked at: one period of the alternating probe


@dataclass(frozen=True)
class ProbeReadout:
    """One model on one probe. Curves have the steps after the read-out too; periods are those of the steps before."""

    pattern: str
    true_period: int | None  # of the running parity: what an automaton shows
    turn_period: float | None  # 2n over the number of ones: what a state that turns by their share shows
    right: bool  # the model's answer
    sdi: dict[str, Float[Array, "t"]]  # summed over training strings; by which checkpoints
    margin: Float[Array, "t"]
    sdi_period: dict[str, Period]
    margin_period: Period
    state_period: int | None  # of the k-means states in the later half
    lag: dict[str, tuple[int, float]]  # steps from SDI peaks to margin jumps, and the correlation there
    cosines: Float[Array, "lags"]  # of h_t and h_{t+p}, p = 1, 2, ...
    plane: Float[Array, "t 2"]
    plane_share: float
    labels: Int[Array, "t"]
    P: Float[Array, "k k"]
    cycle: list[int]
    centres: Float[Array, "k d"]

    def matches(self, which: str) -> bool:
        """Whether the period of the SDI curve is the automaton's; a period of 1 is a curve without oscillation."""
        return (self.sdi_period[which].found or 1) == (self.true_period or 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: without centres."""
        out = {name: plain(value) for name, value in self.__dict__.items() if name != "centres"}
        acf = {name: plain(autocorrelation(curve[:-EXTRA])) for name, curve in self.sdi.items()}
        return {**out, "matches": {name: self.matches(name) for name in self.sdi}, "sdi_acf": acf}


def plain(value: Any) -> Any:
    """A value as JSON: arrays as lists, numbers with six digits."""
    if isinstance(value, Period):
        return {**asdict(value), "found": value.found}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [plain(part) for part in value] if value.ndim > 1 else [float(f"{x:.6g}") for x in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def read_probe(model: Any, settings: Settings, pattern: str, sdi: dict[str, Float[Array, "t"]]) -> ProbeReadout:
    """Forward dynamics beside the SDI profiles."""
    n = settings.test
    string = probe(n, pattern)
    u = unroll(model, [string], n + EXTRA)
    h, margin = u.h[0], u.margin(parity_of([string]))[0]
    k = min(STATES, len(np.unique(h, axis=0)))
    centres = kmeans(h, k, seed=settings.seed)
    labels = nearest(h, centres)[0]
    P = transitions(labels, k)
    plane = Plane.fit(h)
    period, ones = true_period(pattern, n), string.count("1")
    rises = jumps(margin)[:n]
    return ProbeReadout(
        pattern=pattern,
        true_period=period,
        turn_period=2 * n / ones if ones else None,
        right=bool(margin[n - 1] > 0),
        sdi=sdi,
        margin=margin,
        sdi_period={name: find_period(curve[:n], seed=settings.seed) for name, curve in sdi.items()},
        margin_period=find_period(margin[:n], seed=settings.seed),
        state_period=sequence_period(labels, len(labels) // 2),
        lag={name: lag_after(curve[:n], rises, LAGS) for name, curve in sdi.items()},
        cosines=recurrence(h, most=n // 3),
        plane=plane(h),
        plane_share=plane.share,
        labels=labels,
        P=P,
        cycle=cycle(P, int(labels[-1])),
        centres=centres,
    )


def alternating(settings: Settings, stream: int, count: int) -> list[str]:
    """Alternating strings of random lengths, beginning with 0 or 1."""
    rng = np.random.default_rng([settings.seed, stream])
    lengths = rng.integers(SHORTEST, settings.test + 1, count)
    return [probe(int(n), ("01", "10")[b]) for n, b in zip(lengths, rng.integers(0, 2, count), strict=True)]


def read_proxy(model: Any, settings: Settings, centres: Float[Array, "k d"]) -> dict[str, Any]:
    """The proxy's accuracy as the paper measures it, and on strings that its table was not made from."""

    def ends(strings: list[str]) -> tuple[Array, Array]:
        return read_out(model, strings), parity_of(strings)

    proxy = Proxy.calibrate(centres, *ends(alternating(settings, CALIBRATION, settings.calibration)))
    evaluation = alternating(settings, EVALUATION, settings.evaluation)
    tests = held_out(settings, settings.test, settings.tests)
    h, parity = ends(tests)
    # There are only two alternating strings of each length, so draws for calibration and for evaluation overlap.
    every = [probe(n, p) for n in range(SHORTEST, settings.test + 1) for p in ("01", "10")]
    order = np.random.default_rng([settings.seed, EVALUATION, 1]).permutation(len(every))
    half = len(every) // 2
    apart = Proxy.calibrate(centres, *ends([every[i] for i in order[:half]]))
    model_says = unroll(model, tests, settings.test).logits[:, -1].argmax(-1)
    return {
        "table": proxy.parity.tolist(),
        "threshold": proxy.threshold,
        "calibration": {"count": settings.calibration, "accuracy": proxy.purity},
        "in distribution": proxy.score(*ends([s for s in evaluation if len(s) <= settings.longest])),
        "out of distribution": proxy.score(*ends([s for s in evaluation if len(s) > settings.longest])),
        "truly held out": apart.score(*ends([every[i] for i in order[half:]])),
        "test": proxy.score(h, parity),
        "agrees with the model": float((proxy(h)[0] == model_says).mean()),
    }


def read_automaton(model: Any, settings: Settings, ks: tuple[int, ...] = (2, 4, 8)) -> list[dict[str, Any]]:
    """Machines over the states of random strings of the longest training length, run on the real test set."""
    rng = np.random.default_rng([settings.seed, CALIBRATION, 1])
    strings = random_strings(rng, settings.longest, min(settings.calibration, 2**settings.longest))
    h = unroll(model, strings, settings.longest).h
    tests = held_out(settings, settings.test, settings.tests)
    bits, test_bits = (np.array([[int(b) for b in s] for s in some]) for some in (strings, tests))
    points = h.reshape(-1, h.shape[-1])
    points = points[:: max(1, len(points) // 1000)]
    out = []
    for k in ks:
        machine = Automaton.learn(kmeans(points, k, restarts=5), h, bits)
        right = machine(test_bits) == parity_of(tests)
        out.append(
            {
                "states": k,
                "order": machine.order,
                "determinism": machine.determinism,
                "accuracy": float(right.mean()),
                "next": machine.next.tolist(),
                "parity": machine.parity.tolist(),
            }
        )
    return out
