"""The two families of randomness: pure, prefix-stable, and for polynomials exactly as independent as promised."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.sketch import hashing
from sdi.sketch.hashing import (
    bits,
    buckets_of,
    check_family,
    draw_buckets,
    draw_signs,
    evaluate,
    field_degree,
    field_modulus,
    field_product,
    signs_of,
)

exact = settings(deadline=None, derandomize=True, database=None, max_examples=60)
word = st.one_of(st.integers(), st.text("ab.0é", max_size=6))


def carryless_product(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), their coefficients as bits."""
    return reduce(lambda total, i: total ^ (a << i if b >> i & 1 else 0), range(b.bit_length()), 0)


def carryless_remainder(a: int, f: int) -> int:
    for shift in range(a.bit_length() - f.bit_length(), -1, -1):
        if a >> (shift + f.bit_length() - 1) & 1:
            a ^= f << shift
    return a


def naive_product(a: int, b: int, k: int) -> int:
    return carryless_remainder(carryless_product(a, b), field_modulus(k))


def elements(k: int) -> np.ndarray:
    return np.arange(1 << k, dtype=np.uint64)


@pytest.mark.slow
@exact
@given(st.lists(word, min_size=1, max_size=4), st.integers(0, 40), st.integers(0, 40))
def test_bits_are_a_pure_function_of_the_words_and_prefix_stable(words, count, more):
    first = bits(count, *words)
    bits(7, "a call in between")
    assert first.dtype == np.uint64
    assert np.array_equal(first, bits(count, *words))
    assert np.array_equal(first, bits(count + more, *words)[:count])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a", "b"), ("ab",)),
        (("a", ""), ("a",)),
        (("a", "b"), ("b", "a")),
        ((0, "w"), (1, "w")),
        ((1, "2"), (12,)),
        (("w", "h"), ("w", "s")),
    ],
)
def test_different_words_give_different_bits(one, other):
    assert not (bits(4, *one) == bits(4, *other)).any()


def test_bits_are_those_of_shake_256_on_every_machine():
    assert bits(2, 0, "core.0.attn.q.weight", "rows", "h").tolist() == [11261140512607261116, 4431843999050112378]


@pytest.mark.parametrize("k", range(1, 13))
def test_the_modulus_is_the_smallest_polynomial_of_its_degree_without_a_factor(k):
    def has_factor(f: int) -> bool:
        return any(carryless_remainder(f, factor) == 0 for factor in range(2, 1 << k))

    modulus = field_modulus(k)
    assert modulus.bit_length() == k + 1
    assert not has_factor(modulus)
    assert all(has_factor(f) for f in range(1 << k, modulus))


@pytest.mark.parametrize("k", range(1, 64))
def test_the_modulus_divides_the_polynomial_whose_roots_are_the_whole_field(k):
    """x^(2^k) = x modulo an irreducible polynomial of degree k."""
    x = power = carryless_remainder(0b10, field_modulus(k))
    for _ in range(k):
        power = carryless_remainder(carryless_product(power, power), field_modulus(k))
    assert power == x


@pytest.mark.parametrize("k", [0, -1, 64])
def test_the_modulus_of_a_degree_beyond_64_bits_is_refused(k):
    with pytest.raises(ValueError, match=f"degree of the field must be between 1 and 63, got {k}"):
        field_modulus(k)


@pytest.mark.parametrize("k", range(1, 6))
def test_the_field_product_makes_a_field(k):
    x = elements(k)
    a, b, c = (t.ravel() for t in np.meshgrid(x, x, x, indexing="ij"))
    assert (field_product(a, b, k) < 1 << k).all()
    assert np.array_equal(field_product(a, b, k), field_product(b, a, k))
    assert np.array_equal(field_product(field_product(a, b, k), c, k), field_product(a, field_product(b, c, k), k))
    assert np.array_equal(field_product(a, b ^ c, k), field_product(a, b, k) ^ field_product(a, c, k))
    assert np.array_equal(field_product(x, np.ones_like(x), k), x)
    table = field_product(x[:, None] | np.zeros_like(x), x[None, :] | np.zeros_like(x)[:, None], k)
    assert ((table[1:, 1:] == 1).sum(axis=1) == 1).all()  # exactly one inverse each
    assert (table[1:, 1:] != 0).all()


@exact
@given(st.integers(1, 63), st.data())
def test_the_field_product_is_the_carryless_product_reduced(k, data):
    a, b = (data.draw(st.integers(0, (1 << k) - 1)) for _ in range(2))
    got = field_product(np.array([a], dtype=np.uint64), np.array([b], dtype=np.uint64), k)
    assert int(got[0]) == naive_product(a, b, k)


@exact
@given(st.integers(1, 20), st.integers(1, 40), st.data())
def test_evaluate_is_the_sum_of_powers(k, d, data):
    d = min(d, 1 << k)
    c = data.draw(st.lists(st.integers(0, (1 << k) - 1), min_size=1, max_size=4))
    got = evaluate(np.array(c, dtype=np.uint64), d, k)
    for x in range(d):
        powers = [reduce(lambda p, _: naive_product(p, x, k), range(e), 1) for e in range(len(c))]
        assert int(got[x]) == reduce(lambda a, b: a ^ b, (naive_product(*cp, k) for cp in zip(c, powers, strict=True)))


def every_polynomial(terms: int, k: int) -> np.ndarray:
    """The values of every polynomial with this many terms at every point of GF(2^k)."""
    coefficients = product(range(1 << k), repeat=terms)
    return np.array([evaluate(np.array(c, dtype=np.uint64), 1 << k, k) for c in coefficients])


@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_buckets_of_the_polynomial_family_are_exactly_two_wise_uniform(m):
    h = buckets_of(every_polynomial(2, 2), m)  # (16, 4)
    for i, j in combinations(range(4), 2):
        assert Counter(zip(h[:, i].tolist(), h[:, j].tolist(), strict=True)) == dict.fromkeys(
            product(range(m), repeat=2), 16 // m**2
        )


def test_the_signs_of_the_polynomial_family_are_exactly_four_wise_uniform():
    s = signs_of(every_polynomial(4, 2))  # (256, 4)
    assert Counter(map(tuple, s.tolist())) == dict.fromkeys(product((-1, 1), repeat=4), 16)


def test_three_terms_would_not_make_four_wise_signs():
    """The power of the test above: a polynomial of degree 2 is rejected by it."""
    s = signs_of(every_polynomial(3, 2))
    assert len(Counter(map(tuple, s.tolist()))) < 16


@pytest.mark.parametrize("family", ["table", "polynomial"])
@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 8), (5, 1), (7, 4), (64, 2), (300, 16), (5, 64)])
def test_drawn_tables_have_their_length_range_and_dtype(family, d, m):
    h, s = draw_buckets(d, m, family, 0, "w"), draw_signs(d, m, family, 0, "w")
    assert h.shape == s.shape == (d,)
    assert h.dtype == np.int64
    assert s.dtype == np.int8
    assert h.min() >= 0
    assert h.max() < m
    assert set(s.tolist()) <= {-1, 1}


def test_a_drawn_polynomial_is_one_of_the_family():
    h, s = draw_buckets(4, 4, "polynomial", "w"), draw_signs(4, 4, "polynomial", "w")
    assert h.tolist() in buckets_of(every_polynomial(2, 2), 4).tolist()
    assert s.tolist() in signs_of(every_polynomial(4, 2)).tolist()


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (3, 2), (8, 3), (100, 7), (100, 12), (5, 63)])
@pytest.mark.parametrize("terms", [1, 2, 4])
def test_short_polynomials_are_the_same_as_long_ones(monkeypatch, d, k, terms):
    coefficients = hashing.bits(terms, d, k) & np.uint64((1 << k) - 1)
    short = hashing.evaluate(coefficients, d, k)
    monkeypatch.setattr(hashing, "SHORT", 0)
    long = hashing.evaluate(coefficients, d, k)
    assert short.dtype == long.dtype == np.uint64
    assert short.tolist() == long.tolist()


def test_all_buckets_and_both_signs_are_drawn_by_each_family():
    for family in ("table", "polynomial"):
        assert set(draw_buckets(400, 8, family, "w").tolist()) == set(range(8))
        assert set(draw_signs(400, 8, family, "w").tolist()) == {-1, 1}


def test_a_longer_table_begins_with_the_shorter_one():
    assert np.array_equal(draw_buckets(9, 5, "table", "w"), draw_buckets(20, 5, "table", "w")[:9])
    assert np.array_equal(draw_signs(9, 5, "table", "w"), draw_signs(20, 5, "table", "w")[:9])


@pytest.mark.parametrize(("d", "m"), [(1, 1), (2, 1), (1, 2), (3, 4), (5, 4), (4, 64), (1 << 20, 2)])
def test_the_field_is_the_smallest_that_holds_points_and_buckets(d, m):
    for integer in (int, np.int64):
        k = field_degree(integer(d), integer(m))
        assert 1 << k >= max(d, m)
        assert k == 1 or 1 << (k - 1) < max(d, m)


@pytest.mark.parametrize(("m", "remedy"), [(3, 4), (6, 8), (np.int64(6), 8), (1000, 1024), (2049, 4096)])
def test_the_polynomial_family_names_the_next_power_of_two(m, remedy):
    with pytest.raises(ValueError, match=rf"m must be a power of two .* got {int(m)}: .*; use m={remedy} or"):
        check_family("polynomial", m)
    check_family("polynomial", remedy)
    check_family("table", m)


def test_the_polynomial_family_takes_every_power_of_two_and_nothing_else():
    def taken(m):
        try:
            hashing.check_family("polynomial", m)
        except ValueError:
            return False
        return True

    assert [m for m in range(1, 70) if taken(m)] == [1, 2, 4, 8, 16, 32, 64]


def test_numbers_have_the_dtypes_they_are_stored_in():
    assert hashing.sign_bits(3, "a").dtype == np.int8
    assert hashing.signs_of(np.arange(4, dtype=np.uint64)).dtype == np.int8
    assert hashing.normals(3, "a").dtype == np.float32
    assert {hashing.distinct(count, 5, "a").dtype for count in (0, 3)} == {np.dtype(np.int64)}
    assert hashing.distinct_columns(2, 3, 5, "a").dtype == np.int64


def test_the_most_extreme_bits_give_finite_normal_numbers(monkeypatch):
    ends = np.array([0, 2**64 - 1, 2**63, 2**63 - 1], dtype=np.uint64)
    monkeypatch.setattr(hashing, "bits", lambda count, *words: ends)
    low, high, *middle = hashing.normals(4).tolist()
    assert abs(low - NormalDist().inv_cdf(2.0**-54)) < 1e-6
    assert abs(high + NormalDist().inv_cdf(2.0**-53)) < 1e-6
    assert middle == [0.0, 0.0]


def test_the_field_has_as_many_elements_as_buckets_of_any_number():
    assert [hashing.field_degree(1, m) for m in (1, 2, 3, 4, 5, 8, 9)] == [1, 1, 2, 2, 3, 3, 4]


def test_the_field_of_two_elements_has_a_modulus():
    assert hashing.field_modulus(1) == 0b10


def test_a_polynomial_of_many_terms_begins_with_its_last_coefficient():
    """1 + x^3 over GF(2^2), where x^3 = 1 for every x but 0."""
    assert hashing.evaluate(np.array([1, 0, 0, 1], dtype=np.uint64), 4, 2).tolist() == [1, 0, 0, 0]
    assert hashing.evaluate(np.array([0, 1, 0, 0], dtype=np.uint64), 4, 2).tolist() == [0, 1, 2, 3]


def test_sign_bits_are_the_bits_from_the_lowest_on():
    words = [int(word) for word in hashing.bits(3, "a")]
    wanted = [1 - 2 * (words[i // 64] >> i % 64 & 1) for i in range(130)]
    assert [hashing.sign_bits(count, "a").tolist() for count in (1, 64, 65, 130)] == [
        wanted[:count] for count in (1, 64, 65, 130)
    ]


def test_sets_are_drawn_from_their_words():
    one, other = (hashing.distinct(3, 1000, word).tolist() for word in "ab")
    assert one != other
    one, other = (hashing.distinct_columns(2, 3, 1000, word).tolist() for word in "ab")
    assert one != other


@pytest.mark.parametrize(("count", "below"), [(1, 4), (2, 4), (3, 4), (3, 5), (4, 4)])
def test_every_set_is_drawn_equally_often(monkeypatch, count, below):
    """Over all words: uniform modulo each number that they are taken modulo."""
    words = [
        [word + 7 * (below - count + k + 1) for k, word in enumerate(some)]
        for some in product(*(range(below - count + k + 1) for k in range(count)))
    ]
    monkeypatch.setattr(hashing, "bits", lambda n, *given: np.array(given[:n], dtype=np.uint64))
    drawn = [tuple(hashing.distinct(count, below, *some)) for some in words]
    columns = hashing.distinct_columns(len(words), count, below, *np.ravel(words))
    for found in (drawn, [tuple(sorted(column)) for column in columns.tolist()]):
        assert Counter(found) == dict.fromkeys(combinations(range(below), count), len(words) // len(set(found)))
    assert np.array_equal(np.sort(columns, axis=1), drawn)
