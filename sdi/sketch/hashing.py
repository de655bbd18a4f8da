"""Two families of randomness for buckets `h: [d] -> [m]` and signs `s: [d] -> {-1, +1}`.

- ``"table"``: every value independent. Any m.
- ``"polynomial"``: a random polynomial over GF(2^k): of degree 1 for buckets, which makes them exactly 2-wise
  independent, of degree 3 for signs, which makes them exactly 4-wise independent. That is all the theorems ask
  for. The low bits of a uniform element of GF(2^k) are uniform only if m is a power of two.

The bits come from SHAKE-256 of the words given, so a draw depends on nothing else: not on the order of calls,
not on a library's generator, not on the machine.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache

import numpy as np
from jaxtyping import Float32, Int, Int8, UInt64

from sdi.arguments import one_of
from sdi.inputs.settings import FAMILIES

SHORT = 1 << 10  # points of a polynomial up to which its values are looked up bit by bit


def bits(count: int, *words: object) -> UInt64[np.ndarray, "count"]:
    """`count` uniform 64-bit integers, a pure function of `words` (any values with a text, such as seed and name).

    Returns an array (count,).

    >>> bool((bits(3, "a", 1) == bits(5, "a", 1)[:3]).all())
    True
    """
    key = "\x1f".join(str(word) for word in words).encode()
    return np.frombuffer(hashlib.shake_256(key).digest(8 * count), dtype="<u8").astype(np.uint64)


def check_family(family: str, m: int) -> None:
    """Refuse a family that does not exist, or that cannot be exact at this m."""
    one_of("family", family, FAMILIES)
    m = int(m)
    if family == "polynomial" and m & (m - 1):
        raise ValueError(
            f"m must be a power of two for family='polynomial', got {m}: the low bits of GF(2^k) are uniform "
            f"only then; use m={1 << m.bit_length()} or family='table'"
        )


def draw_buckets(d: int, m: int, family: str, *words: object) -> Int[np.ndarray, "d"]:
    """The bucket, from 0 to m - 1, of each of d indices, drawn from `words`. The modulo's bias is below m / 2^64."""
    if family == "table":
        return (bits(d, *words, "h") % np.uint64(m)).astype(np.int64)
    k = field_degree(d, m)
    coefficients = bits(2, *words, "h") & np.uint64((1 << k) - 1)
    return buckets_of(evaluate(coefficients, d, k), m)


def draw_signs(d: int, m: int, family: str, *words: object) -> Int8[np.ndarray, "d"]:
    """The sign, -1 or +1, of each of d indices, drawn from `words`. m only sets the field of the polynomials."""
    if family == "table":
        return signs_of(bits(d, *words, "s"))
    k = field_degree(d, m)
    coefficients = bits(4, *words, "s") & np.uint64((1 << k) - 1)
    return signs_of(evaluate(coefficients, d, k))


def sign_bits(count: int, *words: object) -> Int8[np.ndarray, "count"]:
    """`count` independent signs, from one random bit each, for large tables."""
    unpacked = np.unpackbits(bits(-(-count // 64), *words).astype("<u8").view(np.uint8), count=count, bitorder="little")
    return (1 - 2 * unpacked.view(np.int8)).astype(np.int8)


def normals(count: int, *words: object) -> Float32[np.ndarray, "count"]:
    """Standard normal numbers on a grid of 2^-20, so that the last bit of a machine's logarithm hardly ever matters.

    They fit into single precision exactly; the grid adds 1e-13 to their variance.
    """
    from scipy.special import ndtri  # not at the top: `import sdi` loads no SciPy

    uniform = ((bits(count, *words) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    uniform = np.minimum(uniform, 1 - 2.0**-53)  # the largest of all would be rounded to 1, and be infinite
    return (np.rint(ndtri(uniform) * 2.0**20) * 2.0**-20).astype(np.float32)


def distinct(count: int, below: int, *words: object) -> Int[np.ndarray, "count"]:
    """A uniformly random set of `count` integers from 0 to below - 1, in order (Floyd's algorithm).

    >>> distinct(3, 3, "any").tolist()
    [0, 1, 2]
    """
    chosen: set[int] = set()
    for last, word in zip(range(below - count, below), bits(count, *words).tolist(), strict=True):
        one = word % (last + 1)
        chosen.add(last if one in chosen else one)
    return np.array(sorted(chosen), dtype=np.int64)


def distinct_columns(columns: int, count: int, below: int, *words: object) -> Int[np.ndarray, "columns count"]:
    """`columns` independent sets of `count` distinct integers from 0 to below - 1, by the same algorithm."""
    chosen = np.empty((columns, count), dtype=np.int64)
    words_of = bits(columns * count, *words).reshape(columns, count)
    for k in range(count):
        last = below - count + k
        one = (words_of[:, k] % np.uint64(last + 1)).astype(np.int64)
        taken = (chosen[:, :k] == one[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, last, one)
    return chosen


def buckets_of(values: UInt64[np.ndarray, "..."], m: int) -> Int[np.ndarray, "..."]:
    """The low bits of field elements, as buckets; m is a power of two."""
    return (values & np.uint64(m - 1)).astype(np.int64)


def signs_of(values: UInt64[np.ndarray, "..."]) -> Int8[np.ndarray, "..."]:
    """The lowest bit of field elements, as signs."""
    return (1 - 2 * (values & np.uint64(1)).astype(np.int8)).astype(np.int8)


def field_degree(d: int, m: int) -> int:
    """The smallest k for which GF(2^k) tells d points apart and has m buckets."""
    return max((int(d) - 1).bit_length(), (int(m) - 1).bit_length(), 1)


def evaluate(coefficients: UInt64[np.ndarray, "terms"], d: int, k: int) -> UInt64[np.ndarray, "d"]:
    """The polynomial with these coefficients (constant first) at the first d elements of GF(2^k).

    Long vectors by Horner; for short ones, of which many are drawn, what each bit of a coefficient adds is kept.
    """
    if d > SHORT:
        x = np.arange(d, dtype=np.uint64)
        value = np.full(d, coefficients[-1], dtype=np.uint64)
        for c in coefficients[-2::-1]:
            value = field_product(value, x, k) ^ c
        return value
    set_bits = coefficients[1:, None] >> np.arange(k, dtype=np.uint64) & np.uint64(1)
    return np.bitwise_xor.reduce(_of_each_bit(len(coefficients), d, k)[set_bits.ravel() == 1], axis=0) ^ coefficients[0]


@lru_cache(maxsize=32)
def _of_each_bit(terms: int, d: int, k: int) -> UInt64[np.ndarray, "bits d"]:
    """x^j 2^b for j from 1 to terms - 1 and b from 0 to k - 1, at the first d elements x; never written to."""
    powers, power = [], np.ones(d, dtype=np.uint64)
    for _ in range(1, terms):
        power = field_product(power, np.arange(d, dtype=np.uint64), k)
        powers += [field_product(power, np.full(d, 1 << b, dtype=np.uint64), k) for b in range(k)]
    return np.array(powers, dtype=np.uint64).reshape(-1, d)


def field_product(a: UInt64[np.ndarray, "d"], b: UInt64[np.ndarray, "d"], k: int) -> UInt64[np.ndarray, "d"]:
    """a * b in GF(2^k): shift and add, reducing by the modulus at every shift."""
    zero, one, high, modulus = np.uint64(0), np.uint64(1), np.uint64(k - 1), np.uint64(field_modulus(k))
    product = np.zeros_like(a)
    for bit in range(k):
        product ^= a & (zero - (b >> np.uint64(bit) & one))  # 0 - 1 is all ones
        a = a << one ^ (modulus & (zero - (a >> high)))
    return product


@cache
def field_modulus(k: int) -> int:
    """The smallest irreducible polynomial of degree k over GF(2), its coefficients as bits.

    >>> [bin(field_modulus(k)) for k in (1, 2, 3, 8)]
    ['0b10', '0b111', '0b1011', '0b100011011']
    """
    if not 1 <= k <= 63:
        raise ValueError(f"the degree of the field must be between 1 and 63, got {k}")
    return next(f for f in range(1 << k, 1 << (k + 1)) if _irreducible(f, k))


def _irreducible(f: int, k: int) -> bool:
    """Ben-Or's test: f of degree k is irreducible iff gcd(f, x^(2^i) - x) = 1 for every i up to k / 2."""
    power = 0b10
    for _ in range(k // 2):
        power = _remainder(_square(power), f)
        if _gcd(f, power ^ 0b10) != 1:
            return False
    return True


def _square(a: int) -> int:
    return int("0".join(bin(a)[2:]), 2)


def _remainder(a: int, f: int) -> int:
    while a.bit_length() >= f.bit_length():
        a ^= f << (a.bit_length() - f.bit_length())
    return a


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, _remainder(a, b)
    return a
