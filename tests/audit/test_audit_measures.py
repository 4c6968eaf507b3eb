"""Errors, floors and verdicts of an audit against literal computations and against functions whose error is known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from audit.verdict_cases import QUIET


def blobs(n: int, size: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    """Smooth images that vanish before the border: sums of Gaussians, (n, size, size, 1)."""
    rng = np.random.default_rng(seed)
    i, j = np.indices((size, size)) - (size - 1) / 2
    images = np.zeros((n, size, size, 1))
    for image in images:
        for _ in range(4):
            a, b = rng.uniform(-size / 6, size / 6, 2)
            width = rng.uniform(0.07, 0.1) * size
            image[..., 0] += rng.normal() * np.exp(-((i - a) ** 2 + (j - b) ** 2) / (2 * width**2))
    return images.astype(dtype)


def rings(size: int) -> np.ndarray:
    """Weights that depend on the distance from the centre alone, and smoothly, (size², 3)."""
    i, j = np.indices((size, size)) - (size - 1) / 2
    r = np.hypot(i, j)
    profiles = [np.exp(-((r - q * size) ** 2) / (2 * (0.08 * size) ** 2)) for q in (0.0, 0.15, 0.3)]
    return np.stack(profiles, axis=-1).reshape(-1, 3)


@given(st.integers(0, 10**6), st.sampled_from([(4, 2), (2, 4)]), st.integers(1, 3))
def test_errors_are_those_of_the_definition(seed: int, group: tuple[int, int], outputs: int) -> None:
    n, batch = group
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(7, 4, 4, 2)), rng.normal(size=(32, outputs))
    f = lambda x: np.tanh(x.reshape(len(x), -1) @ w)
    action = et.actions.image_rotations(n)
    report = et.audit(f, action, x, batch_size=batch, effort="quick", **QUIET)
    literal = et.metrics.equivariance_error(f, action, x).errors[1:]
    np.testing.assert_allclose(report.errors, literal, rtol=1e-12)
    assert report.error.estimate.mean == pytest.approx(literal.mean())
    assert report.error.worst == pytest.approx(literal.max())
    assert report.contract.complete
    if outputs > 1:
        osp = et.metrics.orbit_same_predictions(f, action, x).mean  # of n, the identity among them
        assert report.orbit.same_predictions.mean == pytest.approx((osp - 1) / (n - 1))
    else:
        assert report.orbit.same_predictions is None


def test_equivariant_outputs_are_pulled_back() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 6, 6, 1))
    action = et.actions.image_dihedral(4)
    sharpened = lambda x: x**3 + 0.1 * np.roll(x, 1, axis=1)
    report = et.audit(sharpened, action, x, action, **QUIET)
    literal = et.metrics.equivariance_error(sharpened, action, x, action).errors[1:]
    np.testing.assert_allclose(report.errors, literal, rtol=1e-12)
    assert et.audit(lambda x: x**3, action, x, action, **QUIET).verdict == "equivariant"
    assert report.verdict == "broken"
    assert report.orbit.same_predictions is None, "the argmax of an image means nothing"


@pytest.mark.slow
@pytest.mark.parametrize("group", ["SO2", pytest.param("C16", marks=pytest.mark.slow), "D8"])
def test_an_invariant_function_of_continuous_images_is_at_the_resampling_floor(group: str) -> None:
    x, w = blobs(30, 20, 0), rings(20).astype(np.float32)
    report = et.audit(lambda x: np.tanh(x.reshape(len(x), -1) @ w), group, x, **QUIET)
    assert report.verdict == "equivariant"
    assert all(e.at_floor for e in report.elements)
    resampled = [e for e in report.elements if not e.exact]
    for e in resampled:
        assert 0.1 < e.error.estimate.mean / e.floor <= 2
    # the same with weights that are no function of the distance
    shifted = np.roll(w.reshape(20, 20, 3), 2, axis=0).reshape(-1, 3)
    broken = et.audit(lambda x: np.tanh(x.reshape(len(x), -1) @ shifted), group, x, **QUIET)
    assert broken.verdict == "broken"
    assert broken.error.estimate.mean > 50 * report.error.estimate.mean


def test_exact_elements_show_what_interpolation_hides() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(40, 9, 9, 1)), 1 + 0.01 * rng.normal(size=(9, 9, 1))
    report = et.audit(lambda x: 1 + np.tanh(x * w).mean((1, 2)), "C16", x, **QUIET)
    assert (report.verdict, report.reason) == ("broken", "some elements")
    assert [e.label for e in report.elements if not e.at_floor] == ["90°", "180°", "270°"]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(20, 4, 4, 1)), rng.normal(size=(16, 1))
    report = et.audit(lambda x: x.reshape(len(x), -1) @ w, "SO2", x, **QUIET)
    assert (report.verdict, report.reason) == ("undecided", "interpolation"), "no element is exact"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_told_from_violation(dtype: type) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 6, 3)).astype(dtype)
    # sums over points in another order round differently, and no permutation is a violation
    f = lambda p: jnp.tanh(jnp.sum(jnp.sin(3 * p), axis=1))
    report = et.audit(f, "S_n", x, **QUIET)
    assert (report.verdict, report.float_floor.method) == ("equivariant", "float64")
    assert 0 < report.error.estimate.mean < 1e-6
    tiny = et.audit(lambda p: f(p) + 1e-4 * p[:, 0], "S_n", x, **QUIET)
    assert tiny.verdict == "broken"


def test_probabilities_are_seen_unless_values_are_stated() -> None:
    rng = np.random.default_rng(8)
    x, w = rng.normal(size=(20, 4, 4, 1)), rng.normal(size=(16, 3))
    logits = lambda x: x.reshape(len(x), -1) @ w
    soft = lambda x: scipy.special.softmax(logits(x), axis=1)
    kind = lambda f, **stated: et.audit(f, "C4", x, **stated, **QUIET).headline.unit
    assert kind(soft) == "probability"
    assert not {"probability"} & {kind(logits), kind(soft, outputs="values")}


def test_random_functions_and_functions_of_the_batch_are_recognised() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(30, 4, 4, 1)).astype(np.float32)
    noisy = lambda x: x.sum((1, 2)) ** 2 + 10 + rng.normal(size=(len(x), 1)).astype(np.float32)
    report = et.audit(noisy, "C4", x, **QUIET)
    assert (report.verdict, report.reason) == ("undecided", "noise")
    assert not report.model.deterministic
    broken = et.audit(lambda x: noisy(x) + 100 * x[:, 0, 0], "C4", x, **QUIET)
    assert (broken.verdict, broken.model.deterministic) == ("broken", False)
    alone, together = lambda x: x.sum((1, 2)), lambda x: np.cumsum(x.sum((1, 2)), axis=0)
    independent = [et.audit(f, "C4", x.astype(float), **QUIET).model.batch_independent for f in (alone, together)]
    assert independent == [True, False]


def test_the_scale_of_outputs_changes_nothing() -> None:
    x = np.random.default_rng(6).normal(size=(9, 4, 4, 1))
    f = lambda x: x.sum((1, 2)) + x[:, 0, 0]
    large, plain = (et.audit(lambda x, c=c: f(x) * c, "C4", x, **QUIET) for c in (2.0**490, 1.0))
    assert large.first_line == plain.first_line


def test_off_the_data_sets_are_measured_apart() -> None:
    rng = np.random.default_rng(11)
    x = np.full((20, 4, 4, 1), 1.0) + 1e-3 * rng.normal(size=(20, 4, 4, 1))  # nearly symmetric data
    f = lambda x: x[:, 0, 0] + 2
    report = et.audit(f, "C4", x, off_data=True, resamples=200)
    assert [s.kind for s in report.sets] == ["data", "noise", "shuffled"]
    assert report.sets[0].judged == report.headline.error.estimate
    other = et.audit(f, "C4", x, off_data={"wide": rng.normal(size=(9, 4, 4, 1))}, relative_to="norm", resamples=200)
    data, wide = other.sets
    assert (wide.name, wide.kind, wide.inputs) == ("wide", "other", 9)
    assert wide.judged.mean > 20 * data.judged.mean


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_noise_and_shuffled_data_of_whole_numbers_are_not_the_data(dtype: type) -> None:
    rng = np.random.default_rng(3)
    pixel = rng.integers(0, 60, (30, 6, 6, 1))
    x = sum(np.rot90(pixel, k, (1, 2)) for k in range(4)) + rng.integers(0, 3, pixel.shape)  # nearly symmetric
    x = (x > 120).astype(bool) if dtype is bool else x.astype(dtype)
    seen = []

    def f(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return np.asarray(x, float)[:, 0] + 9

    settings = {"off_data": True, "resamples": 50}
    whole, real = (et.audit(f, "C4", a, **settings).sets for a in (x, x.astype(float)))
    for a, b in zip(whole[1:], real[1:], strict=True):
        assert a.judged.mean > 2 * whole[0].judged.mean
        assert a.judged.mean == pytest.approx(b.judged.mean, rel=0.3)
    assert all(x.min() <= a.min() and a.max() <= x.max() for a in seen if a.dtype == dtype)


def test_names_of_nodes_have_no_noise() -> None:
    rng = np.random.default_rng(4)
    points, edges = rng.normal(size=(9, 5, 2)), rng.integers(0, 5, (9, 4, 2))
    settings = {"off_data": True, "resamples": 50}
    counts = lambda e: (e == 0).sum((1, 2)) + 1.0
    alone = et.audit(counts, "S5", edges, inputs="edges", **settings)
    assert [s.name for s in alone.sets] == ["data"]
    assert {"set 'noise'", "set 'shuffled'"} <= {m.section for m in alone.missing}
    given = []

    def both(p: np.ndarray, e: np.ndarray) -> np.ndarray:
        given.append(e)
        return p.sum((1, 2)) + (e == 0).sum((1, 2))

    report = et.audit(both, "S5", (points, edges), inputs=("points", "edges"), elements=3, **settings)
    assert [s.name for s in report.sets] == ["data", "noise", "shuffled"]
    assert all(a.dtype == edges.dtype and a.min() >= 0 and a.max() < 5 for a in given)


def test_the_worst_input_can_be_replayed() -> None:
    rng = np.random.default_rng(14)
    x, w = rng.normal(size=(15, 4, 4, 1)), rng.normal(size=(16, 2))
    f = lambda x: np.tanh(x.reshape(len(x), -1) @ w)
    report = et.audit(f, "C4", x, relative_to="norm", **QUIET)
    worst = report.witness
    assert worst.error == report.error.worst
    start, moved = x[worst.index][None], np.rot90(x[worst.index][None], worst.parameter, (1, 2))
    replayed = np.linalg.norm(f(moved) - f(start)) / np.linalg.norm(f(start))
    assert replayed == pytest.approx(worst.error)
    shown = next(p for p in worst.orbit if p.label == worst.label)
    np.testing.assert_allclose(shown.inputs["x"], moved[0], rtol=1e-4)
    np.testing.assert_allclose(shown.prediction, f(moved)[0], rtol=1e-4)
    assert worst.orbit[0].label == "0°"


def test_a_model_that_works_in_place_is_audited_like_one_that_does_not():
    x = np.random.default_rng(0).normal(size=(30, 4, 4, 1))
    kept = x.copy()
    plain = lambda x: (2 * x).reshape(len(x), -1)[:, :3]
    in_place = lambda x: np.multiply(x, 2, out=x).reshape(len(x), -1)[:, :3]
    first, second = (et.audit(f, "C4", x, resamples=200) for f in (plain, in_place))
    np.testing.assert_array_equal(x, kept)
    assert first.first_line == second.first_line
    assert [element.error for element in first.elements] == [element.error for element in second.elements]


def test_floors_of_resampled_turns_are_round_trips_and_a_better_spline() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(60, 7, 7, 1)), rng.normal(size=49)
    f = lambda x: 3 + np.tanh(x.reshape(len(x), -1) @ w / 4)
    plain, fine = et.actions.image_rotations(8), et.actions.image_rotations(8, order=5)
    report = et.audit(f, "C8", x, **QUIET)
    for g, element in enumerate(report.elements, start=1):
        if g % 2 == 0:
            assert element.floor < 1e-9
            continue
        back = np.abs(f(plain(plain.group.inverse(g), plain(g, x))) - f(x)) / np.abs(f(x))
        better = np.abs(f(fine(g, x)) - f(plain(g, x))) / np.abs(f(x))
        assert np.any(back < better), "else it does not show that both are read"
        assert np.any(back > better)
        assert element.floor == pytest.approx(np.maximum(back, better).mean(), rel=1e-6)


def test_sizes_are_root_mean_squares_over_inputs_and_sums_over_outputs() -> None:
    rng = np.random.default_rng(1)
    x, w, y = rng.normal(size=(9, 4, 4, 1)), rng.normal(size=(16, 3)), rng.normal(size=(9, 3))
    f = lambda x: np.tanh(x.reshape(len(x), -1) @ w)
    section = et.audit(f, "C4", x, y=y, **QUIET).relative
    moved = [f(np.rot90(x, k, (1, 2))) for k in (1, 2, 3)]
    rms = lambda rows: np.sqrt(np.mean(np.sum(np.square(rows), axis=-1)))
    assert (section.task, section.task_error) == ("root mean square error", pytest.approx(rms(f(x) - y)))
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


CLOUDS = np.random.default_rng(0).normal(size=(12, 4, 3))
SQUARES = np.random.default_rng(1).normal(size=(8, 4, 4, 1))


def test_the_error_is_that_of_the_worst_output() -> None:
    fine, broken = (lambda x: x.sum((1, 2)) + 20), (lambda x: x[:, 0, 0] + 20)
    both = et.audit(lambda x: (fine(x), broken(x)), "C4", SQUARES, **QUIET)
    alone = et.audit(broken, "C4", SQUARES, **QUIET)
    np.testing.assert_allclose(both.errors, alone.errors, rtol=1e-12)
    assert both.verdict == "broken"
    first, second = (output.error.mean for output in both.contract.outputs)
    assert first < 1e-9
    assert second == pytest.approx(alone.error.estimate.mean)


@pytest.mark.parametrize("map_", [lambda R, x: 0 * x, lambda R, x: x * [1.0, 1.0, 0.0]], ids=["nothing", "a plane"])
def test_maps_that_respect_products_but_change_everything_are_no_actions(map_) -> None:
    with pytest.raises(et.errors.NotAnActionError, match=r"is off by .*; expected ρ\(e\) x = x"):
        et.audit(lambda x: x.sum((1, 2)), "SO3", CLOUDS, inputs=et.audit.Custom(map_), **QUIET)
