"""The parity analysis on planted structure: what is there is found exactly, what is not there is not."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.experiments.parity import periods
from sdi.experiments.parity.automaton import ORDERS, Automaton
from sdi.experiments.parity.periods import autocorrelation, find_period, jumps, lag_after, phase_shuffled, red_noise
from sdi.experiments.parity.proxy import Proxy
from sdi.experiments.parity.rotation import frequency, turned
from sdi.experiments.parity.states import Plane, cycle, kmeans, nearest, recurrence, sequence_period, transitions

N = 40  # steps of a curve


def planted_cycle(states=4, steps=42, d=16, noise=0.01, seed=0):
    """A walk round well-separated centres, with the centres' order known."""
    rng = np.random.default_rng(seed)
    labels = np.arange(steps) % states
    return rng.standard_normal((states, d))[labels] + noise * rng.standard_normal((steps, d)), labels


def walk(rng):
    return np.cumsum(rng.standard_normal(N))


def smooth(rng):
    x = rng.standard_normal(N)
    for t in range(1, N):
        x[t] = 0.8 * x[t - 1] + 0.6 * x[t]
    return x


NOISE = {"white": lambda rng: rng.standard_normal(N), "smooth": smooth, "walk": walk}


@pytest.mark.parametrize("states", [2, 3, 4, 6])
def test_a_planted_cycle_is_recovered_exactly(states):
    h, labels = planted_cycle(states)
    found = nearest(h, kmeans(h, states))[0]
    assert (found == labels).all()  # also the names: states are numbered as they are visited
    P = transitions(found, states)
    assert (np.roll(np.eye(states), 1, axis=1) == P).all()
    assert cycle(P, 0) == list(range(states))
    assert sequence_period(found, 0) == states
    cosines = recurrence(h, 12)
    assert set(np.flatnonzero(cosines > 0.99) + 1) == {p for p in range(1, 13) if p % states == 0}
    assert find_period(Plane.fit(h)(h)[:, 0]).found == states


def test_a_transient_self_loop_is_seen_as_such():
    labels = np.array([0, 0, *([1, 2, 3, 0] * 10)])
    P = transitions(labels, 4)
    assert P[0].tolist() == [1 / 11, 10 / 11, 0, 0]
    assert cycle(P, 0) == [0, 1, 2, 3]
    assert sequence_period(labels, 2) == 4
    assert sequence_period(labels, 0) is None


def test_states_that_end_have_a_row_of_zeros_and_no_cycle():
    P = transitions(np.array([0, 1, 2]), 3)
    assert P[2].tolist() == [0, 0, 0]
    assert cycle(P, 0) == []


@pytest.mark.parametrize("period", [2, 3, 4, 6])
@pytest.mark.parametrize("trend", [0.0, 0.2])
def test_a_noisy_rhythm_has_its_period(period, trend):
    profile = np.array([1.0, -1, 0.2, -0.2, 0.5, -0.5][:period])
    x = np.resize(profile, N) + trend * np.arange(N) + 0.1 * np.random.default_rng(0).standard_normal(N)
    assert find_period(x, surrogates=199).found == period


def false_calls(kind, called, curves=100):
    rng = np.random.default_rng(1)
    return sum(called(NOISE[kind](rng)) for _ in range(curves))


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_not_called_periodic(kind):
    """At most 2% of noise is. If exactly 2% were, more than 7 of 100 curves would be with a chance below 0.001."""
    assert false_calls(kind, lambda x: find_period(x, surrogates=199).found is not None) <= 7


def test_a_threshold_instead_of_surrogates_would_call_noise_periodic():
    """So the test above can fail: a peak of 0.3, which looks convincing, is common in noise."""
    assert false_calls("white", lambda x: find_period(x, surrogates=1).height > 0.3) > 2 * 7


def test_a_curve_that_only_grows_or_stays_has_no_period():
    t = np.arange(N, dtype=float)
    for curve in (t, np.exp(t / 5), np.ones(N), np.zeros(N), np.exp(-t)):
        assert find_period(curve, surrogates=99).found is None


def test_fourier_phases_could_not_serve_as_surrogates():
    """Shuffling them keeps the circular autocorrelation, so a rhythm and its surrogate would look alike."""
    rng = np.random.default_rng(0)
    x = np.resize([1.0, 0.3, -1, -0.3], N) + 0.1 * rng.standard_normal(N)
    spectrum = np.fft.rfft(x)
    phases = np.exp(2j * np.pi * rng.random(len(spectrum)))
    phases[0] = phases[-1] = 1
    y = np.fft.irfft(spectrum * phases, N)
    assert not np.allclose(x, y)

    def circular(z):
        return np.array([(z * np.roll(z, p)).sum() for p in range(N)])

    assert np.allclose(circular(x), circular(y))
    ours = phase_shuffled(x, 4, 200, rng)
    assert np.median(autocorrelation(ours)[:, 4]) < 0.5 < 0.9 < autocorrelation(x)[4]


def test_surrogates_keep_what_they_should():
    rng = np.random.default_rng(0)
    x = smooth(rng)
    rotated = phase_shuffled(x, 5, 50, rng)
    assert all(sorted(row[5:10]) == sorted(x[5:10]) for row in rotated)
    red = red_noise(x - x.mean(), 4000, rng)
    assert abs(red.std() / x.std() - 1) < 0.05
    assert set(phase_shuffled(x, 7, 50, rng).ravel()) <= set(x)  # 40 is no multiple of 7: the last stretch is short


@pytest.mark.parametrize("lag", [0, 1, 2, 3])
def test_a_planted_lag_is_found(lag):
    saw = np.resize([3.0, 2, 1, 0], N) + 0.05 * np.random.default_rng(0).standard_normal(N)
    found, correlation = lag_after(saw, np.roll(saw, lag), 4)
    assert found == lag
    assert correlation > 0.9
    assert jumps(np.array([1.0, 4, 2])).tolist() == [0, 3, -2]


def test_short_curves_are_refused():
    with pytest.raises(ValueError, match=r"curve must be one-dimensional with at least 12 steps, got shape \(5,\)"):
        periods.find_period(np.zeros(5))
    with pytest.raises(ValueError, match="k must be from 1 to the number of different points, got k=3 for 9 points"):
        kmeans(np.repeat(np.eye(2), [4, 5], axis=0), 3)


def test_the_proxy_reads_parity_from_the_nearest_state():
    rng = np.random.default_rng(0)
    centres = 10 * np.eye(4)
    parity = np.array([0, 1, 1, 0])
    states = rng.integers(0, 4, 200)
    h = centres[states] + 0.1 * rng.standard_normal((200, 4))
    proxy = Proxy.calibrate(centres, h, parity[states])
    assert proxy.parity.tolist() == parity.tolist()
    assert proxy.purity == 1.0
    scored = proxy.score(h, parity[states])
    assert scored["accuracy"] == 1.0
    assert scored["coverage"] == 0.95  # the threshold is the 95th percentile of these very distances
    # Strings off the known states: half are guessed right, and the threshold leaves only those that are known.
    off = np.concatenate([h[:50], rng.standard_normal((50, 4))])
    truth = np.concatenate([parity[states[:50]], rng.integers(0, 2, 50)])
    scored = proxy.score(off, truth)
    assert scored["accuracy"] < 0.9
    assert scored["selective"] == 1.0
    assert scored["coverage"] <= 0.5


def test_a_state_that_does_not_tell_is_not_guessed():
    centres = np.array([[0.0], [1.0], [2.0]])
    proxy = Proxy.calibrate(centres, np.array([[0.0], [0.0], [1.0]]), np.array([0, 1, 1]))
    assert proxy.parity.tolist() == [-1, 1, -1]  # a tie, a certainty, nothing seen
    assert proxy.score(np.array([[0.0], [2.0]]), np.array([0, 1]))["accuracy"] == 0.0
    assert proxy.score(np.zeros((0, 1)), np.zeros(0, int))["accuracy"] is None


@pytest.mark.parametrize("order", ORDERS)
def test_a_planted_machine_is_learned_and_runs_on_longer_strings(order):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (60, 12))
    read = bits if order == ORDERS[0] else bits[:, ::-1]
    state = np.cumsum(read, axis=1) % 2 * 2 + read  # four states: the parity so far, and the bit just read
    centres = rng.standard_normal((4, 8))
    h = centres[state] + 0.01 * rng.standard_normal((*state.shape, 8))
    machine = Automaton.learn(kmeans(h.reshape(-1, 8), 4), h, bits)
    assert machine.order == order
    assert machine.determinism == 1.0
    longer = rng.integers(0, 2, (100, 40))
    assert (machine(longer) == longer.sum(1) % 2).all()


def test_states_that_do_not_follow_the_bits_make_no_machine():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (200, 12))
    h = rng.standard_normal((4, 8))[rng.integers(0, 4, (200, 12))]
    machine = Automaton.learn(kmeans(h.reshape(-1, 8), 4), h, bits)
    assert machine.determinism < 0.4
    longer = rng.integers(0, 2, (200, 40))
    assert (machine(longer) == longer.sum(1) % 2).mean() < 0.65


def test_a_machine_says_where_it_never_was():
    h = np.eye(2)[[[0, 1], [0, 1]]]
    machine = Automaton.learn(np.eye(2), h, np.array([[0, 1], [0, 1]]))
    assert machine(np.array([[0, 1, 1]])).tolist() == [-1]


@pytest.mark.parametrize("ones", [4, 9, 13, 20, 27, 31])
def test_a_turning_state_has_the_frequency_of_its_ones_and_the_right_answer(ones):
    t = np.arange(1, N + 1)
    curve = np.cos(np.pi * ones * t / N) + 0.1 * np.random.default_rng(0).standard_normal(N)
    assert abs(frequency(curve[None])[0] - ones / (2 * N)) < 0.005
    assert turned(np.array([ones]), N, 0.5)[0, -1] == ones % 2


def test_a_turn_and_a_running_parity_are_told_apart_by_order_alone():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (200, N))
    running, turn = np.cumsum(bits, axis=1) % 2, turned(bits.sum(1), N, 0.5)
    assert (running[:, -1] == turn[:, -1]).all()  # both answer right
    assert abs((running == turn).mean() - 0.5) < 0.06  # and agree by chance on the way
    alternating = np.arange(N)[None] % 2
    assert (np.cumsum(alternating, axis=1) % 2 == turned(np.array([N // 2]), N, 0.0)).all()  # but not on the probe
