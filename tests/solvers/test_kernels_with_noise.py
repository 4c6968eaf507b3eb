"""The kernel of a network that draws noise is one matrix, by whichever of its parts a solver reads it."""

import numpy as np
import pytest

import equitangents as et
from equitangents.ensembles.fields import FieldKernel, FieldMatrix, FieldPoints
from equitangents.nn import Conv, Dense, Dropout, Flatten, Relu, Sequential
from equitangents.solvers import PCG
from equitangents.solvers.matrices import KernelMatrix

DROPPED = Sequential(Dense(8), Relu(), Dropout(0.5), Dense(1))
FIELD = Sequential(Conv(4, 3), Relu(), Dropout(0.5), Conv(1, 3))


def inputs_and_points(rng):
    x, signals = rng.standard_normal((8, 3)), rng.standard_normal((2, 4, 2))
    x[4], signals[1] = x[1], signals[0]  # equal ones draw apart
    points = FieldPoints.of(signals, 4)
    return (KernelMatrix(DROPPED, x, tile=4), DROPPED.kernel(x).ntk), (
        FieldMatrix(FieldKernel(FIELD), points, "ntk"),
        FIELD.kernel_field(signals).ntk.reshape(8, 8),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1])
def test_all_parts_are_those_of_one_matrix(rng, kind):
    matrix, whole = inputs_and_points(rng)[kind]
    rows, columns = np.array([6, 1, 7, 4]), np.array([2, 3, 4, 1])
    tolerance = {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(matrix.block(rows, columns), whole[np.ix_(rows, columns)], **tolerance)
    np.testing.assert_allclose(matrix.columns(columns), whole[:, columns], **tolerance)
    np.testing.assert_allclose(matrix.block(slice(0, 4), slice(2, 6)), whole[:4, 2:6], **tolerance)
    np.testing.assert_allclose(matrix.block(slice(0, 4), slice(0, 4)), whole[:4, :4], **tolerance)
    np.testing.assert_allclose(matrix.diagonal(), np.diagonal(whole), **tolerance)
    np.testing.assert_allclose(matrix.product(np.eye(len(whole))), whole, **tolerance)


@pytest.mark.parametrize("solver", ["cholesky", PCG(rank=3)])
def test_solvers_that_read_parts_solve_that_matrix(rng, solver):
    (matrix, whole), _ = inputs_and_points(rng)
    y = rng.standard_normal((8, 1))
    expected = np.linalg.solve(whole + 0.1 * np.trace(whole) / 8 * np.eye(8), y)
    np.testing.assert_allclose(et.solvers.solve(matrix, y, solver=solver, ridge=0.1).coefficients, expected, rtol=1e-5)


@pytest.mark.parametrize("width", [(3, 3), (1, 2)])
def test_orbit_averages_draw_once_for_each_copy(rng, width):
    net = Sequential(Conv(4, width), Relu(), Dropout(0.5), Flatten(), Dense(1))
    turns, x = et.actions.image_rotations(4), rng.standard_normal((3, 3, 3, 1))
    x[1, ..., 0] = 1.0  # its copies are equal, and drawn apart
    copies = turns.orbit(x)
    literal = net.kernel(copies.reshape(-1, 3, 3, 1)).ntk.reshape(4, 3, 4, 3).mean(axis=(0, 2))
    np.testing.assert_allclose(et.kernels.orbit_average(net, turns).kernel(x).ntk, literal, rtol=1e-10)
