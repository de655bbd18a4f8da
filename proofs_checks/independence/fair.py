"""Buckets and signs are fair: counted over millions of draws, since a score hardly sees a small bias of a hash.

A bias e of the signs moves the mean of a score by e^2 only, and a bucket that is never used moves its variance by 1/m.
So values of the hashes themselves are counted, for both families.

    signs       P(+) = 1/2, over 2^26 values of tables and 2^24 of polynomials
    buckets     of tables: chi-square, and each bucket by itself, over 2048 values for each of m = 2048, 2047 and 7;
                of polynomials: over the whole field a line takes every bucket equally often, or one only: exactly
    together    of tables: a sign with the next one and the one after it, two buckets that follow one another, a bucket
                with its sign: equally often in every combination. Of polynomials: `independence.drawn`

Statistical: alpha = 1e-6 divided by the number of tests, two-sided, by normal limits (a chi-square by its own law).
Seen with a probability of 99%: P(+) off by 0.0005 (a thousandth of it) for tables and by 0.001 for polynomials, one
missing bucket of 2048, and a bucket that is 20% more or less likely than the others. Values of one polynomial are only
4-wise independent; that is all the variance of a count asks for. The seeds are fixed: a run fails always or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from sdi.sketch.hashing import bits, draw_buckets, draw_signs

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Draw = Callable[..., Array]  # d, m, family and words
Case = tuple[Any, str]
ALPHA, TESTS, WIDTHS = 1e-6, 16, (2048, 2047, 7)
SIGNS = {"table": (1 << 20, 64), "polynomial": (1 << 13, 2048)}  # values of a draw, draws
LIMIT = NormalDist().inv_cdf(1 - ALPHA / TESTS / 2)
SEEN = {  # by 99% of all runs: how far P(+) may be off
    family: (LIMIT + NormalDist().inv_cdf(0.99)) * 0.5 / sqrt(d * n) for family, (d, n) in SIGNS.items()
}


class Claim(NamedTuple):
    buckets: Draw = draw_buckets
    signs: Draw = draw_signs


def uneven(counts: Array, where: str) -> Iterator[Case]:
    """Cells that are equally likely: all of them together, and each."""
    each = counts.sum() / counts.size
    chance = float(chdtrc(counts.size - 1, ((counts - each) ** 2).sum() / each))
    yield chance >= ALPHA / TESTS, f"{where} are uneven, which has probability {chance:.1g}"
    z = np.abs(counts - each) / sqrt(each * (1 - 1 / counts.size))
    limit = NormalDist().inv_cdf(1 - ALPHA / TESTS / counts.size / 2)
    at = int(z.argmax())
    yield z[at] <= limit, f"{where}: {at} is {z[at]:.1f} standard errors off, {counts[at]} of {each:.0f}"


def _signs(draw: Draw, family: str, times: int) -> Iterator[Case]:
    d, draws = SIGNS[family]
    plus = sum(int(np.count_nonzero(draw(d, 2048, family, seed, "fair") > 0)) for seed in range(times * draws))
    share, error = plus / (times * d * draws), 0.5 / sqrt(times * d * draws)
    z = (share - 0.5) / error
    yield abs(z) <= LIMIT, f"signs, {family}: P(+) is {share:.5f}, {z:.1f} standard errors off"


def _tables(claim: Claim) -> Iterator[Case]:
    for m in WIDTHS:
        drawn = [claim.buckets(1 << 20, m, "table", seed, "fair") for seed in range(-(-m * 2048 >> 20) or 1)]
        yield from uneven(np.bincount(np.concatenate(drawn), minlength=m), f"buckets, table, m={m}")
    h, s = (draw(1 << 20, 16, "table", 0, "fair") for draw in claim)
    sign = (s > 0).astype(np.int64)
    together = {
        "a sign and the next": 2 * sign[:-1:2] + sign[1::2],
        "a sign and the one after the next": 2 * sign[:-2:4] + sign[2::4],
        "two buckets": 16 * h[:-1:2] + h[1::2],
        "a bucket and its sign": 2 * h + sign,
    }
    for what, code in together.items():
        cells = 4 if "sign and the" in what else 256 if what == "two buckets" else 32
        yield from uneven(np.bincount(code, minlength=cells), f"{what}, table")


def _lines(draw: Draw) -> Iterator[Case]:
    """A line over the whole field: every bucket 2^k / m times, or one bucket always: one line in 2^k has no slope."""
    for d, m in ((2048, 2048), (4096, 64), (64, 64)):
        flat = 0
        for seed in range(60):
            counts = np.bincount(draw(d, m, "polynomial", seed, "fair"), minlength=m)
            flat += int(counts.max() == d)
            even = (counts == d // m).all() or counts.max() == d
            yield even, f"buckets, polynomial, d={d}, m={m}: from {counts.min()} to {counts.max()} values in a bucket"
        yield flat <= 8, f"buckets, polynomial, d={d}, m={m}: {flat} of 60 draws have one bucket only"


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    yield from _tables(claim)
    yield from _lines(claim.buckets)
    for family in SIGNS:
        yield from _signs(claim.signs, family, 4 if thorough else 1)


def _one_bucket_less(d: int, m: int, family: str, *words: object) -> Array:
    return draw_buckets(d, m - 1, family, *words) if family == "table" else draw_buckets(d, m, family, *words)


def _last_is_rare(d: int, m: int, family: str, *words: object) -> Array:
    """The last bucket 3/4 as likely: one in four of its values goes to the first."""
    h = draw_buckets(d, m, family, *words)
    return np.where((h == m - 1) & (bits(d, *words, "rare") % np.uint64(4) == 0), 0, h)


def _field_without_last(d: int, m: int, family: str, *words: object) -> Array:
    h = draw_buckets(d, m, family, *words)
    return np.where(h == m - 1, 0, h) if family == "polynomial" else h


def _more_plus(of: str, excess: float) -> Draw:
    """P(+) = 1/2 + excess in one family."""

    def draw(d: int, m: int, family: str, *words: object) -> Array:
        s = draw_signs(d, m, family, *words)
        if family != of:
            return s
        some = bits(1, *words, "more")[0] % np.uint64(d)  # from here on, around: which ones turn must not repeat
        turned = np.roll(np.arange(d) < round(2 * excess * d), int(some))
        return np.where(turned, 1, s)

    return draw


def _bits_of_buckets(d: int, m: int, family: str, *words: object) -> Array:
    """The sign is the lowest bit of the bucket."""
    return draw_signs(d, m, family, *words) if family != "table" else 1 - 2 * (draw_buckets(d, m, family, *words) & 1)


def _repeated(d: int, m: int, family: str, *words: object) -> Array:
    """Every second sign repeats the one before."""
    return draw_signs(d, m, family, *words)[np.arange(d) // 2 * 2]


@statement(
    "independence.fair",
    paper="Appendix on sketches, definition of the hashes, as implemented",
    method="statistical",
    claim=Claim(),
    mutants={
        "buckets up to m - 2 only": Claim(buckets=_one_bucket_less),
        "the last bucket 3/4 as likely": Claim(buckets=_last_is_rare),
        "polynomials never take the last bucket": Claim(buckets=_field_without_last),
        "P(+) = 0.5005 of tables": Claim(signs=_more_plus("table", 0.0005)),
        "P(+) = 0.501 of polynomials": Claim(signs=_more_plus("polynomial", 0.001)),
        "signs from the bits of buckets": Claim(signs=_bits_of_buckets),
        "every second sign repeated": Claim(signs=_repeated),
    },
)
def hashes_are_fair(claim: Claim, thorough: bool) -> Verdict:
    """Every bucket and both signs are equally likely, alone and together: P(+) to 0.0005, every bucket of 2048."""
    seen = ", ".join(f"{family} {bias:.2g}" for family, bias in SEEN.items())
    return Verdict.all(_cases(claim, thorough), f"alpha {ALPHA:g}; P(+) seen if off by: {seen}")
