"""S-Dist of finite ensembles: without bias, with intervals that hold, the plain estimate as the source has it."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError

INPUTS, OUTPUTS = 6, 2


def ensembles(rng: np.random.Generator, m: int, n: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Two with means apart by `apart` in every output, of different spread, members skewed."""
    shape = (INPUTS, OUTPUTS)
    a = rng.exponential(size=(m, *shape)) - 1 + apart
    return a, 2 * rng.standard_normal((n, 1, 1)) + rng.standard_normal((n, *shape))


def test_the_plain_estimate_is_the_mean_squared_distance_of_means() -> None:
    a, b = ensembles(np.random.default_rng(0), 7, 11, 1.0)
    found = et.systems.s_dist(a, b)
    literal = np.mean([np.sum((a[:, i].mean(axis=0) - b[:, i].mean(axis=0)) ** 2) for i in range(INPUTS)])
    assert abs(found.plain - literal) <= 1e-12 * literal
    assert (found.members, found.inputs) == ((7.0, 11.0), INPUTS)


@pytest.mark.parametrize(("m", "n", "apart"), [(8, 8, 0.0), (6, 12, 1.0), (12, 6, 0.0)])
def test_the_correction_takes_the_sampling_bias_out(m: int, n: int, apart: float) -> None:
    rng = np.random.default_rng(1)
    found = [et.systems.s_dist(*ensembles(rng, m, n, apart)) for _ in range(100)]
    values = np.array([f.value for f in found])
    assert abs(values.mean() - OUTPUTS * apart**2) < 4 * values.std() / len(values) ** 0.5
    bias = OUTPUTS * (1 / m + 5 / n)
    plain = np.array([f.plain for f in found])
    assert abs(plain.mean() - OUTPUTS * apart**2 - bias) < 4 * plain.std() / len(plain) ** 0.5


def test_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(2)
    found = [et.systems.s_dist(*ensembles(rng, 10, 20, 1.0)).interval for _ in range(80)]
    held = np.mean([low <= OUTPUTS <= high for low, high in found])
    assert held >= 0.95 - 3 * (0.05 * 0.95 / 80) ** 0.5


def test_intervals_are_cut_at_0_and_hold_equal_algorithms_and_the_share_of_noise_lies_between_0_and_1() -> None:
    rng = np.random.default_rng(6)
    found = [et.systems.s_dist(*ensembles(rng, 8, 8, 0.0)) for _ in range(60)]
    assert min(f.value for f in found) < 0
    assert all(f.interval[0] >= 0 and f.interval[1] == max(f.corrected.high, 0.0) for f in found)
    assert np.mean([f.interval[0] == 0 for f in found]) >= 0.95 - 3 * (0.05 * 0.95 / 60) ** 0.5
    shares = [f.noise_share for f in found]
    assert all(0 <= s.low <= s.value <= s.high <= 1 for s in shares)
    one = et.systems.s_dist(*ensembles(rng, 8, 8, 5.0))
    assert abs(one.noise_share.value - (one.plain - one.value) / one.plain) < 1e-12
    assert np.isnan(et.systems.s_dist(*ensembles(rng, 4, 4, 0.0)).interval).all()


def test_an_exact_mean_has_no_noise_to_take_out() -> None:
    rng = np.random.default_rng(3)
    mean = np.full((INPUTS, OUTPUTS), 0.5)
    values = [et.systems.s_dist(ensembles(rng, 9, 3, 0.0)[0], mean).value for _ in range(100)]
    assert abs(np.mean(values) - OUTPUTS * 0.25) < 4 * np.std(values) / 100**0.5
    a = ensembles(rng, 9, 3, 0.0)[0]
    assert et.systems.s_dist(a, mean).members == (9.0, np.inf)
    assert et.systems.s_dist(mean, a).value == et.systems.s_dist(a, mean).value


def test_order_does_not_matter() -> None:
    a, b = ensembles(np.random.default_rng(4), 6, 9, 0.5)
    one, other = et.systems.s_dist(a, b), et.systems.s_dist(b, a)
    assert one.value == other.value
    assert one.interval == other.interval
    assert one.members == other.members[::-1]


def test_bad_ensembles_are_refused() -> None:
    a, b = ensembles(np.random.default_rng(5), 6, 9, 0.5)
    with pytest.raises(EquitangentsError, match="exact means"):
        et.systems.s_dist(a[0], b[0])
    with pytest.raises(EquitangentsError, match="must be equal"):
        et.systems.s_dist(a, b[:, :3])
    with pytest.raises(EquitangentsError, match="at least 3"):
        et.systems.s_dist(a[:2], b)
    with pytest.raises(EquitangentsError, match="NaN"):
        et.systems.s_dist(a * np.nan, b)


@pytest.mark.slow
def test_fitted_systems_are_compared_at_inputs() -> None:
    data = et.systems.textures(12, (4, 2), classes=2)
    narrow = et.systems.architecture("FCN", 1, 4)
    learning = et.systems.inference("NN", members=4, epochs=1, learning_rate=0.1)
    finite = et.systems.System("I", narrow, learning).fit(data.x, data.labels)
    exact = et.systems.System("I", narrow, "NTK").fit(data.x, data.labels)
    found = et.systems.s_dist(finite, exact, data.x)
    by_hand = et.systems.s_dist(finite.predict_members(data.x), exact.predict(data.x))
    assert found.value == by_hand.value
    with pytest.raises(EquitangentsError, match="x is None"):
        et.systems.s_dist(finite, exact)
