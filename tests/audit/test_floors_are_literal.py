"""Floors of resampling, and sizes in units of the task, against their definitions written out."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et

QUIET = {"off_data": False, "data_test": None, "resamples": 50, "layers": False}


def test_floors_of_resampled_turns_are_round_trips_and_a_better_spline() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(60, 7, 7, 1)), rng.normal(size=49)
    f = lambda x: 3 + np.tanh(x.reshape(len(x), -1) @ w / 4)
    plain, fine = et.actions.image_rotations(8), et.actions.image_rotations(8, order=5)
    report = et.audit(f, "C8", x, **QUIET)
    for g, element in enumerate(report.elements, start=1):
        if g % 2 == 0:
            assert element.round_trip_floor is None
            assert element.floor < 1e-9
            continue
        back = np.abs(f(plain(plain.group.inverse(g), plain(g, x))) - f(x)) / np.abs(f(x))
        better = np.abs(f(fine(g, x)) - f(plain(g, x))) / np.abs(f(x))
        assert np.any(back < better), "else it does not show that both are read"
        assert np.any(back > better)
        assert element.round_trip_floor == pytest.approx(back.mean(), rel=1e-6)
        assert element.reference_floor == pytest.approx(better.mean(), rel=1e-6)
        assert element.floor == pytest.approx(np.maximum(back, better).mean(), rel=1e-6)


def test_sizes_are_root_mean_squares_over_inputs_and_sums_over_outputs() -> None:
    rng = np.random.default_rng(1)
    x, w, y = rng.normal(size=(9, 4, 4, 1)), rng.normal(size=(16, 3)), rng.normal(size=(9, 3))
    f = lambda x: np.tanh(x.reshape(len(x), -1) @ w)
    section = et.audit(f, "C4", x, y=y, **QUIET).relative
    moved = [f(np.rot90(x, k, (1, 2))) for k in (1, 2, 3)]
    rms = lambda rows: np.sqrt(np.mean(np.sum(np.square(rows), axis=-1)))
    assert section.rms_norm == pytest.approx(rms(f(x)))
    assert section.rms_violation == pytest.approx(rms(np.stack(moved) - f(x)))
    assert section.task_error == pytest.approx(rms(f(x) - y))
    assert section.transformed_task_error == pytest.approx(rms(np.stack(moved) - y))


def test_the_limit_of_two_members_is_the_product_of_their_violations() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(20, 2)), rng.normal(size=(2, 2, 3))
    members = [lambda x, w=w: 5 + x @ (w + 1) for w in w]
    turns = [np.linalg.matrix_power(np.array([[0.0, -1.0], [1.0, 0.0]]), k).T for k in (1, 2, 3)]
    first, second = ([f(x @ turn) - f(x) for turn in turns] for f in members)
    size = np.mean(np.sum(((members[0](x) + members[1](x)) / 2) ** 2, axis=1))
    product = np.mean(np.sum(np.multiply(first, second), axis=2)) / size
    squares = np.mean(np.sum(np.square([first, second]), axis=3)) / size
    section = et.audit(members, "C4", x, **QUIET).ensemble
    assert product > 0
    assert section.limit.mean == pytest.approx(np.sqrt(product))
    assert section.finite == pytest.approx(np.sqrt(squares - product))
    assert [s.fitted for s in section.sizes] == pytest.approx([squares, product + (squares - product) / 2])
