import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, NotFiniteError, NotPositiveDefiniteError, ShapeError
from equitangents.inference import Flow, TrainedProcess, decompose


def with_eigenvalues(values, seed=0):
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    matrix = rotation @ np.diag(values) @ rotation.T
    return (matrix + matrix.T) / 2


def named_ridge(error):
    return float(re.search(r"ridge=(\S+) or more", str(error)).group(1))


@given(st.lists(st.floats(1e-3, 10), min_size=1, max_size=6), st.floats(0, 2))
def test_the_parts_make_the_matrix_with_its_ridge(values, ridge):
    matrix = with_eigenvalues(values)
    s = decompose(matrix, ridge=ridge)
    whole = matrix + ridge * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    np.testing.assert_allclose(s.vectors @ np.diag(s.eigenvalues) @ s.vectors.T, whole, atol=1e-12)
    assert s.largest == s.eigenvalues.max()


class TestPositivity:
    @pytest.mark.parametrize("smallest", [0.0, 1e-17, -1e-17])
    def test_a_singular_matrix_has_no_end_of_time_until_the_named_ridge(self, smallest):
        matrix = with_eigenvalues([smallest, 1.0, 2.0])
        with pytest.raises(NotPositiveDefiniteError, match="not positive definite to working precision") as caught:
            decompose(matrix).check_invertible()
        decompose(matrix, ridge=named_ridge(caught.value)).check_invertible()

    @given(st.floats(-1, 0), st.floats(0.01, 10), st.floats(0, 0.1))
    def test_the_named_ridge_always_helps(self, smallest, largest, ridge):
        matrix = with_eigenvalues([smallest, largest, 10.0])
        try:
            decompose(matrix, ridge=ridge).check_invertible()
        except NotPositiveDefiniteError as error:
            helpful = named_ridge(error)
            assert helpful > ridge
            decompose(matrix, ridge=helpful).check_invertible()

    def test_too_small_a_ridge_is_told_a_larger_one(self):
        matrix = with_eigenvalues([-0.5, 1.0, 2.0])
        with pytest.raises(NotPositiveDefiniteError) as caught:
            decompose(matrix, ridge=0.1)
        assert 0.5 / np.trace(matrix) * 3 < named_ridge(caught.value) < 2

    def test_an_indefinite_matrix_is_refused_at_once_and_rounding_is_not(self):
        with pytest.raises(NotPositiveDefiniteError, match=r"indefinite .*-1\.00e-03.*cause: .* or more$"):
            decompose(with_eigenvalues([-1e-3, 1.0, 2.0]))
        assert decompose(with_eigenvalues([-1e-15, 1.0, 2.0])).eigenvalues[0] == 0

    def test_rounding_is_that_of_the_precision_of_the_kernel(self):
        matrix = with_eigenvalues([-1e-7, 1.0, 2.0])
        decompose(matrix, precision=np.float32)
        with pytest.raises(NotPositiveDefiniteError, match="indefinite"):
            decompose(matrix, precision=np.float64)
        nearly = with_eigenvalues([1e-8, 1.0, 2.0])
        decompose(nearly).check_invertible()
        with pytest.raises(NotPositiveDefiniteError):
            decompose(nearly, precision=np.float32).check_invertible()

    def test_no_ridge_helps_a_kernel_that_vanishes(self):
        with pytest.raises(NotPositiveDefiniteError, match="no ridge helps"):
            decompose(np.zeros((2, 2))).check_invertible()


@pytest.mark.parametrize(
    ("matrix", "ridge", "error", "message"),
    [
        (np.ones((2, 3)), 0.0, ShapeError, r"\(2, 3\); expected a square"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), 0.0, InvalidArgumentError, r"differ by 0\.1; expected a symmetric one"),
        (np.full((2, 2), np.nan), 0.0, NotFiniteError, "kernel matrix"),
        *((np.eye(2), ridge, InvalidArgumentError, "ridge is") for ridge in (-1e-3, np.nan, np.inf)),
    ],
)
def test_bad_input(matrix, ridge, error, message):
    with pytest.raises(error, match=message):
        decompose(matrix, ridge=ridge)


class TestLongTimes:
    def test_beyond_all_numbers_are_infinite(self, rng):
        x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
        process = TrainedProcess(decompose(x @ x.T), y, Flow(1e10, samples=20))
        with pytest.raises(NotPositiveDefiniteError, match="or take a finite time"):
            process.project(x @ x.T).mean(1e300)

    def test_do_not_matter_to_kernels_with_an_inverse(self):
        process = TrainedProcess(decompose(with_eigenvalues([1e-3, 1.0, 2.0])), np.ones((3, 1)), Flow(1.0, 3))
        assert np.isfinite(process.project(np.ones((2, 3))).mean(1e300)).all()
