from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference import Flow
from equitangents.inference.dynamics import Descent, as_times
from examples import examples

getcontext().prec = 60
eigenvalues = st.floats(1e-18, 1e3)


def exact_flow_response(eigenvalue, s):
    x = Decimal(eigenvalue)
    return (1 - (-x * Decimal(s)).exp()) / x


def exact_descent_response(eigenvalue, rate, steps):
    x = Fraction(eigenvalue)
    return (1 - (1 - Fraction(rate) * x) ** steps) / x


class TestExactValues:
    @given(eigenvalues, st.floats(1e-6, 1e4), st.integers(1, 50))
    def test_flow(self, eigenvalue, time, samples):
        flow = Flow(0.7, samples)
        got = flow.response(np.array([eigenvalue]), time)[0]
        assert got == pytest.approx(float(exact_flow_response(eigenvalue, flow.rate * time)), rel=1e-13)

    @given(st.floats(1e-18, 2.0), st.integers(1, 60))
    def test_descent_up_to_the_largest_stable_step(self, eigenvalue, steps):
        descent = Descent(1.0, 1)
        got = descent.response(np.array([eigenvalue]), steps)[0]
        assert got == pytest.approx(float(exact_descent_response(eigenvalue, 1.0, steps)), rel=1e-12)

    @pytest.mark.parametrize("steps", [1, 2, 7, 100, 10**6])
    def test_descent_where_one_step_learns_everything_and_where_it_only_turns_the_sign(self, steps):
        turned = 2.0 if steps % 2 else 0.0
        got = Descent(1.0, 4).response(np.array([4.0, 8.0]), steps)
        np.testing.assert_allclose(got, [1 / 4, turned / 8], rtol=1e-15)

    def test_eigenvalue_zero_moves_at_constant_speed(self):
        zero = np.zeros(1)
        assert Flow(0.5, 4).response(zero, 6.0) == 0.5 * 6 / 4
        assert Descent(0.5, 4).response(zero, 6) == 0.5 * 6 / 4
        assert Flow(0.5, 4).decay(zero, 6.0) == Descent(0.5, 4).decay(zero, 6) == 1

    @pytest.mark.parametrize("dynamics", [Flow(0.1, 3), Descent(0.1, 3)])
    def test_the_ends_of_time(self, dynamics):
        values = np.array([1e-8, 1.0, 20.0])
        np.testing.assert_array_equal(dynamics.response(values, 0.0), 0)
        np.testing.assert_array_equal(dynamics.decay(values, 0.0), 1)
        np.testing.assert_array_equal(dynamics.response(values, np.inf), 1 / values)
        np.testing.assert_array_equal(dynamics.decay(values, np.inf), 0)
        np.testing.assert_allclose(dynamics.response(values, 10**12), 1 / values, rtol=1e-12)


class TestLaws:
    @given(st.sampled_from([Flow, Descent]), st.floats(1e-18, 2), st.integers(0, 40), st.integers(0, 40))
    @examples(30, random=100)
    def test_times_add_up(self, kind, eigenvalue, s, t):
        dynamics, x = kind(1.0, 1), np.array([eigenvalue])
        decay, response = dynamics.decay, dynamics.response
        np.testing.assert_allclose(decay(x, s) * decay(x, t), decay(x, s + t), rtol=1e-9, atol=1e-14)
        moved = response(x, s) + decay(x, s) * response(x, t)
        np.testing.assert_allclose(moved, response(x, s + t), rtol=1e-11, atol=1e-14)

    @given(st.sampled_from([Flow, Descent]), st.floats(0, 2), st.integers(0, 1000))
    def test_what_moved_and_what_is_left_make_up_the_residual(self, kind, eigenvalue, time):
        dynamics, x = kind(1.0, 1), np.array([eigenvalue])
        np.testing.assert_allclose(x * dynamics.response(x, time) + dynamics.decay(x, time), 1, atol=1e-13)


def test_descent_above_the_largest_rate_is_refused_with_that_rate():
    largest = Descent(0.1, 10).max_learning_rate(4.0)
    assert largest == 5.0
    Descent(largest, 10).check(4.0, 1000)
    Descent(5.001, 10).check(4.0, 0)
    for rate, time, message in (
        (5.001, 1, r"at most 5, above which"),
        (5.0, np.inf, "oscillates"),  # it never arrives
        (0.1, 2.5, r"time is 2\.5.*counts steps"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Descent(rate, 10).check(4.0, time)


@pytest.mark.parametrize(
    ("make", "bad", "error", "message"),
    [
        (lambda rate: Flow(rate, 3), [0.0, -1.0, np.nan, np.inf, "fast", None], InvalidArgumentError, "learning_rate"),
        (lambda samples: Flow(1.0, samples), [0], InvalidArgumentError, "samples is 0"),
        (as_times, [-1.0, np.nan, [0.5, -0.1], [[1.0]], []], InvalidArgumentError, "time"),
        (as_times, ["soon", object(), [1.0, "x"]], InvalidTypeError, "time is"),
    ],
)
def test_bad_input(make, bad, error, message):
    for value in bad:
        with pytest.raises(error, match=message):
            make(value)
