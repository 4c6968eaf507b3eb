"""The choice: its scores are those of the model's own left-out samples, and no fold sees its own labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.actions.images import ImageMotions
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.fit import MAX_SAMPLES, LearningCurvePoint, Step, auto, choosing
from equitangents.fit.assessing import Folds, Gram, RidgeScore, _inner_minimum, make_folds, score_kernel, select
from equitangents.fit.baselines import fit_baselines
from equitangents.fit.candidates import NetworkCandidate, candidates
from equitangents.statistics import Estimate

LONG = 600.0  # minutes: how busy a machine is decides nothing here
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
TWO = et.actions.subset(et.actions.image_rotations(4), [0, 1])  # no group
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=30) > 0, "up", "down")


@pytest.fixture
def one_dense(monkeypatch):
    """One candidate alone, dense on 4×4 pixels."""
    dense = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    monkeypatch.setattr(
        "equitangents.fit.choosing.candidates", lambda shape: [NetworkCandidate("dense", 1, (4, 4), dense)]
    )
    monkeypatch.setattr("equitangents.fit.choosing.of_features", lambda x: ())
    return dense


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 4, 4, 1))
    x[:, ::2] += 2.0 * y[:, None, None, None]
    return x.astype(np.float32), y


def test_the_score_is_the_models_own_and_the_kernels_are_reused(monkeypatch):
    calls = []
    original = et.nn.Sequential.kernel
    monkeypatch.setattr(et.nn.Sequential, "kernel", lambda net, *a, **k: calls.append(net) or original(net, *a, **k))
    choice = auto(X, Y, baselines=False, minutes=LONG)
    model = choice.model
    assert calls.count(model.net) == calls.count(next(net for net in calls if net != model.net))
    left = model.leave_one_out_
    assert left.accuracy == pytest.approx(choice.best.accuracy)
    log_p = np.log(np.exp(left.outputs.predictions / model.temperature_))
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    own = -log_p[np.arange(30), np.searchsorted(model.classes_, Y)]
    by_class = np.mean([own[c == Y].mean() for c in model.classes_])
    assert by_class == pytest.approx(choice.best.log_loss, rel=1e-3)
    assert choice.best.log_loss == min(each.log_loss for each in choice.tried)
    assert len(choice.tried) + len(choice.refused) == 6
    assert choice.score.accuracy.low < choice.score.accuracy.value < choice.score.accuracy.high
    assert model.calibrate
    assert model.temperature_ is not None
    assert "chosen" in str(choice)


def test_images_with_a_group_and_equal_samples(monkeypatch):
    monkeypatch.setattr("equitangents.fit.choosing.of_features", lambda x: ())
    x, y = images(16)
    x[2], x[5] = x[0], np.rot90(x[1], axes=(0, 1))  # of the same label
    choice = auto(x, y, augmentation="C4", baselines=False, minutes=LONG)
    model = choice.model
    assert model.solver_ == "orbit-averaged N×N"
    assert model.leave_one_out_.accuracy == pytest.approx(choice.best.accuracy)
    again = et.InfiniteEnsembleClassifier(**model.get_params()).fit(x, y)
    assert np.allclose(again.predict_proba(x), model.predict_proba(x), atol=1e-4)
    stds = [each.ensemble_.predict(x[:2], return_std=True)[1] for each in (again, model)]
    assert np.allclose(*stds, atol=1e-4)
    assert model.ensemble_._training.settings.held is None
    turned = np.rot90(x, axes=(1, 2))
    assert np.allclose(model.predict_proba(x), model.predict_proba(turned), atol=1e-4)


def test_images_are_read_in_single_precision_where_nothing_is_lost(one_dense):
    x, y = images(16)
    pixels = np.round(255 * (x - x.min()) / np.ptp(x)).astype(np.uint8)
    of = lambda x, **more: auto(x, y, baselines=False, minutes=LONG, **more)
    bytes_, doubles = of(pixels), of(pixels.astype(np.float64))
    assert {each.precision for each in (*bytes_.tried, *doubles.tried)} == {"float32"}
    assert bytes_.model.ensemble_._training.x.dtype == np.float32
    assert bytes_.best.log_loss == doubles.best.log_loss
    exact = of(pixels, precision="float64")
    assert {each.precision for each in exact.tried} == {"float64"}
    assert exact.best.log_loss == pytest.approx(bytes_.best.log_loss, rel=1e-3)
    assert {each.precision for each in of(x.astype(np.float64) + 1e6).tried} == {"float64"}


def with_labels(problem: Folds, fold: int) -> Folds:
    """The problem with the labels of one fold changed, and the folds as they were."""
    labels = problem.labels.copy()
    labels[problem.subset(problem.folds[fold]).rows] = 0
    return Folds(labels, problem.classes, problem.sets, problem.folds)


@given(st.integers(0, 2**16), st.integers(0, 4))
@settings(max_examples=4)
def test_no_fold_sees_its_own_labels(seed, fold):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(25, 4))
    gram = Gram(a @ a.T + 0.1 * np.eye(25), np.ones(25))
    labels = rng.permutation(np.arange(25) % 3)
    problem = make_folds(labels, ("a", "b", "c"), np.arange(25) // 2 if seed % 2 else None, seed)
    fold = min(fold, len(problem.folds) - 1)
    one, other = (score_kernel(gram, each).folds[fold] for each in (problem, with_labels(problem, fold)))
    assert (one[0].log_loss, one[0].ridge, one[0].beta) == (other[0].log_loss, other[0].ridge, other[0].beta)
    assert one[0].losses.sum() == pytest.approx(one[0].log_loss)
    assert np.array_equal(one[1], other[1])


def test_the_best_of_little_work_among_those_that_are_as_good_is_chosen():
    best = np.random.default_rng(0).exponential(size=40) / 40
    noisy = best + (0.002 + 0.05 * (-1.0) ** np.arange(40)) / 40
    a, b, c = (RidgeScore(float(losses.sum()), 1.0, 1.0, 0.5, losses) for losses in (best, noisy, best + 0.002))
    assert a.log_loss < min(b.log_loss, c.log_loss)
    assert select([a], [7]) == 0
    assert select([a, b], [9001, 9]) == 1  # the difference is noise
    assert select([a, b], [9000, 9]) == select([a, b], [9, 9000]) == 0
    assert select([a, c], [9001, 9]) == 0  # worse in every sample
    assert select([c, a, b], [1, 9001, 9]) == 2


def test_kernels_of_a_lighter_one_are_computed_again_where_others_led(monkeypatch):
    x, y = images(24)
    plain = auto(x, y, augmentation="C4", baselines=False, minutes=LONG)
    monkeypatch.setattr("equitangents.fit.searching.near_best", lambda found: [len(found) - 1])
    monkeypatch.setattr("equitangents.fit.searching.select", lambda found, work: int(len(found) > 3))
    choice = auto(x, y, augmentation="C4", baselines=False, minutes=LONG)
    assert choice.chosen == 1
    assert choice.best.name == plain.tried[1].name
    assert choice.model.leave_one_out_.accuracy == pytest.approx(choice.best.accuracy)


def test_no_baseline_sees_the_labels_of_its_fold(monkeypatch):
    for name, value in {"_TREES": 10, "_NEIGHBOURS": (1, 3), "_C": (10.0,), "_GAMMA": (1.0,)}.items():
        monkeypatch.setattr(f"equitangents.fit.baselines.{name}", value)
    labels = np.arange(20) % 2
    problem = make_folds(labels, ("a", "b"), None, 0)
    x = np.random.default_rng(5).normal(size=(20, 2)) + 4 * labels[:, None]
    for (name, one), (_, other) in zip(
        fit_baselines(x, problem, None, 0), fit_baselines(x, with_labels(problem, 1), None, 0), strict=True
    ):
        inside = problem.subset(problem.folds[1]).rows
        assert np.array_equal(one[inside], other[inside]), name
        assert np.allclose(one.sum(axis=1), 1)
        assert name == "majority" or (one.argmax(axis=1) == labels).mean() > 0.8


def test_labels_without_signal_show_chance():
    """The best of many kernels looks better than chance by the score that chose it, and not by the folds."""
    chosen, honest = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(30) % 2)
        problem = make_folds(labels, ("a", "b"), None, seed)
        found = []
        for _ in range(5):
            a = rng.normal(size=(30, 5))
            gram = a @ a.T + 0.1 * np.eye(30)
            found.append(score_kernel(Gram(gram, np.diag(gram)), problem))
        chosen.append(min(found, key=lambda each: each.best.log_loss).best.accuracy)
        for f, fold in enumerate(problem.folds):
            _, logits = min((each.folds[f] for each in found), key=lambda part: part[0].log_loss)
            honest += (logits.argmax(axis=1) == labels[problem.subset(fold).rows]).tolist()
    assert np.mean(chosen) > 0.58
    assert abs(np.mean(honest) - 0.5) < 3 * 0.5 / np.sqrt(len(honest))


def test_interrupted_it_takes_the_best_so_far():
    seen: list[Step] = []

    def stop(step: Step) -> None:
        seen.append(step)
        if step.best is not None or len(seen) > 100:
            raise KeyboardInterrupt

    choice = auto(X, Y, baselines=False, progress=stop)
    assert choice.interrupted
    assert {each.name for each in choice.tried} == {seen[0].name}
    assert choice.model.predict(X).shape == (30,)
    seen = [seen[0]] * 101
    with pytest.raises(KeyboardInterrupt):
        auto(X, Y, baselines=False, progress=stop)


def test_two_samples_of_each_class_are_enough(one_dense):
    x, y = images(4)
    x[3] = x[0]  # one image, two labels
    choice = auto(x, y, baselines=False, minutes=LONG)
    assert choice.near_duplicates == ((0, 3),)
    assert "(no\N{NO-BREAK SPACE}interval)" in choice.score_table.rows[0][1]


def test_without_time_the_cheapest_alone_is_tried():
    choice = auto(X, Y, minutes=1e-9)
    assert len({each.name for each in choice.tried}) == 1
    assert set(choice.untried) == {"dense, 2 layers", "dense, 4 layers", "dense, 1 layer"} - {choice.best.name}
    assert choice.uncompared == ("neighbours", "forest", "SVM")
    assert [each.name for each in choice.baselines] == ["majority"]


@pytest.mark.parametrize(("estimate", "tried"), [(60.0, 3), (120.0, 1)])
def test_an_estimate_refuses_a_candidate_only_if_half_of_it_is_too_long(monkeypatch, estimate, tried):
    """Of 48 seconds for the search; the networks take milliseconds."""
    seconds = lambda trial, samples: 0.1 if trial.candidate.layers == 1 else estimate
    monkeypatch.setattr("equitangents.fit.searching.KernelTrial.seconds", seconds)
    choice = auto(X, Y, baselines=False, minutes=1)
    assert len({each.name for each in choice.tried}) == tried == 3 - len(choice.untried)


def test_samples_that_belong_together_leave_together():
    copies = np.repeat(np.random.default_rng(3).normal(size=(10, 6)), 3, axis=0)
    labels = np.repeat(np.random.default_rng(4).permutation(np.arange(10) % 2), 3)
    apart = auto(copies + 0.01 * RNG.normal(size=copies.shape), labels, baselines=False, minutes=LONG)
    sources = np.repeat(np.arange(10), 3)
    whole = auto(copies + 0.01 * RNG.normal(size=copies.shape), labels, together=sources, baselines=False, minutes=LONG)
    assert apart.score.accuracy.value > 0.95
    assert whole.score.accuracy.value < 0.85
    assert (whole.sets, apart.sets) == (10, None)


@pytest.mark.slow
def test_three_sets_are_enough_for_every_model_and_baselines_without_time_are_named():
    few = auto(X, Y, together=np.arange(len(X)) % 3, minutes=LONG)
    assert [each.name for each in few.baselines] == ["majority", "neighbours", "forest", "SVM"]
    late = auto(X, Y, minutes=1e-9)
    assert not set(late.uncompared) & set(late.untried)
    assert "SVM" in {row[0] for row in late.score_table.rows}
    assert not any("SVM" in row[0] for row in late.candidate_table.rows)


@pytest.mark.parametrize("length", [1, 2, 12, 30])
def test_the_end_of_the_grid_is_no_answer_where_predictions_have_ended_there(length):
    falls = 1 + 0.5 ** np.arange(length)
    for scores, inside in ((falls, lambda at: at < length - 5), (falls[::-1], lambda at: at > 5), (0 * falls, None)):
        at = _inner_minimum(scores)
        assert scores[at] <= scores.min() + 1e-3
        assert inside is None or length < 20 or inside(at)
    assert _inner_minimum(np.array([3.0, 1.0, 2.0])) == 1
    assert _inner_minimum(np.array([1.0, 2.0, 3.0])) == 0


def test_the_smallest_ridge_of_single_precision_is_followed_by_double_precision(monkeypatch):
    monkeypatch.setattr("equitangents.fit.searching._KERNELS", ("nngp",))
    deepest = candidates((2,))[-1:]
    monkeypatch.setattr("equitangents.fit.choosing.candidates", lambda shape: deepest)
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None] * np.array([1.0, 0.5], np.float32)
    choice = auto(x, (np.arange(40) // 8) % 2, baselines=False, minutes=LONG)
    single = [each for each in choice.tried if each.precision == "float32"]
    assert any(each.at_smallest_ridge for each in single)
    assert choice.best.precision == "float64"
    assert choice.best.ridge < next(each.ridge for each in single if each.name == choice.best.name)
    assert choice.model.predict(x).shape == (40,)
    assert choice.model.ensemble_._training.x.dtype == np.float64


@pytest.mark.slow
def test_where_time_is_short_one_fold_orders_the_candidates_and_is_not_scored(monkeypatch):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(160, 3))
    labels = (x[:, 0] + rng.normal(size=160) > 0) * 1
    monkeypatch.setattr("equitangents.fit.searching.KernelTrial.seconds", lambda trial, samples: 3.0 * samples)
    monkeypatch.setattr("equitangents.fit.baselines._TREES", 5)
    monkeypatch.setattr("equitangents.fit.baselines._C", (1.0,))
    choice = auto(x, labels, minutes=20)
    inside = make_folds(labels, ("0", "1"), None, 0)
    assert sorted(choice.rows) == sorted(set(range(160)) - set(inside.subset(inside.folds[0]).rows))
    assert choice.folds == 4
    assert {len(each.held.labels) for each in (choice.score, *choice.baselines)} == {len(choice.rows)}
    assert not choice.untried


def test_the_group_is_chosen_by_left_out_images(one_dense):
    rng = np.random.default_rng(2)
    labels = np.arange(40) % 2
    x = rng.normal(0, 0.6, (40, 4, 4, 1))
    x[labels == 0, :2] += 1
    x[labels == 1, 2:] += 1
    assert auto(x, labels, augmentation="auto", baselines=False, minutes=LONG).best.group == ""
    blob = rng.normal(0, 0.6, (40, 4, 4, 1))
    blob[labels == 1, 0, :2] += 1.5
    blob = np.stack([np.rot90(image, k) for image, k in zip(blob, rng.integers(4, size=40), strict=True)])
    choice = auto(blob, labels, augmentation="auto", baselines=False, minutes=LONG)
    assert choice.best.group
    assert {each.group for each in choice.tried} == {"", "C4", "D4", "C8", "D8"}


def test_a_resampled_group_is_an_average_over_both_orbits(one_dense, tmp_path):
    x, y = images(16)
    choice = auto(x, y, augmentation="C8", baselines=False, minutes=LONG)
    assert {each.group for each in choice.tried} == {"C8"}
    average = et.kernels.orbit_average(one_dense, et.actions.image_rotations(8))
    assert choice.model.net == average
    assert choice.model.leave_one_out_.accuracy == pytest.approx(choice.best.accuracy)
    quarter = np.rot90(x, axes=(1, 2))
    np.testing.assert_allclose(choice.model.predict_proba(quarter), choice.model.predict_proba(x), atol=1e-4)
    assert choice.rotations[1].angle == pytest.approx(5.0)
    choice.model.save(tmp_path / "model")
    assert et.InfiniteEnsembleClassifier.load(tmp_path / "model").net == average


def test_turned_copies_and_parts_are_predicted_by_networks_fitted_to_the_rest(monkeypatch):
    found, logits_of = [], choosing.left_out_logits
    monkeypatch.setattr("equitangents.fit.choosing.left_out_logits", lambda *a: found.append(a) or logits_of(*a))
    x, y = images(31)
    choice = auto(x, y, baselines=False, minutes=LONG)
    result, problem, turned, _ = found[0]
    assert len(np.unique(turned, axis=0)) == len(turned) == 8 * 31  # each image at each angle
    upright = problem.merge(logits for _, logits in result.score.folds)
    assert choice.curve[-1].accuracy.value == pytest.approx((upright.argmax(1) == y).mean())
    for half, all_of_them, twice in ((0.6, 0.8, pytest.approx(0.9)), (0.8, 0.6, None)):
        curve = LearningCurvePoint(10, Estimate(half, 0, 1)), LearningCurvePoint(20, Estimate(all_of_them, 0, 1))
        assert replace(choice, curve=curve).doubled == twice
    rows, elements = np.array([0, 3, 5, 7]), np.array([1, 2, 5, 8])
    action = ImageMotions(et.groups.cyclic(9), lambda g: (40.0 * g, False), outside="edge")
    copies = np.concatenate([action(int(k), x[i : i + 1].astype(float)) for i, k in zip(rows, elements, strict=True)])
    copies = choice.model.standardisation_(copies).astype(result.gram.precision)
    logits = logits_of(result, problem, copies, rows)
    for (rest, inside), (best, _) in zip(problem.split(), result.score.folds, strict=True):
        for k in np.flatnonzero(np.isin(rows, inside)):
            net = et.InfiniteEnsembleClassifier(choice.model.net, ridge=best.ridge, kernel=result.tried.kernel)
            mean = net.fit(result.trial.training.x[rest.rows], y[rest.rows]).ensemble_.predict(copies[k : k + 1])[0]
            np.testing.assert_allclose(logits[k], best.beta * mean, rtol=2e-2, atol=2e-2 * abs(best.beta))


def test_candidates_that_are_not_known_to_be_invariant_are_named():
    x, y = images(8)
    x = np.kron(x, np.ones((1, 2, 2, 1), np.float32))
    _, trials, refused = choosing._trials(x, y, [et.actions.translations((8, 8))], {"standardise": True})
    tried, left_out = {each.candidate.family for each in trials}, [name for name, _ in refused]
    assert tried == {"dense", "pooled"}
    assert any(name.startswith("colours and edges, 1 layer") for name in left_out)
    assert not {each.name for each in trials} & set(left_out)


def test_fast_leaves_out_what_predicts_slowly(monkeypatch):
    slowly = lambda trial, samples: 1e-3 * trial.candidate.layers**5
    monkeypatch.setattr("equitangents.fit.searching.KernelTrial.seconds", slowly)
    choice = auto(X, Y, baselines=False, fast=True, minutes=LONG)
    assert choice.untried == ("dense, 4 layers",)
    assert choice.best_fast == choice.best


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"x": X[:3], "y": Y[:3]}, InvalidArgumentError, "samples, 3; expected 4"),
        (
            {"x": np.zeros((MAX_SAMPLES + 1, 1)), "y": np.zeros(MAX_SAMPLES + 1)},
            InvalidArgumentError,
            "samples, 2001; expected",
        ),
        ({"x": np.zeros((5, 2, 2)), "y": Y[:5]}, ShapeError, "expected vectors"),
        ({"x": X, "y": Y, "minutes": 0}, InvalidArgumentError, "minutes is 0"),
        ({"x": X, "y": Y, "augmentation": "auto"}, InvalidArgumentError, "expected images"),
        ({"x": images(8)[0], "y": images(8)[1], "augmentation": TWO}, InvalidArgumentError, "of turns and reflections"),
        ({"x": np.full((8, 2), np.nan), "y": Y[:8]}, InvalidArgumentError, "NaN"),
        ({"x": X, "y": Y, "together": np.arange(len(X)) % 2}, InvalidArgumentError, "together has sets, 2"),
        ({"x": X, "y": np.zeros(len(X))}, InvalidArgumentError, "y holds one class"),
        ({"x": X, "y": np.arange(len(X)) == 0}, InvalidArgumentError, "of class 'True'; expected two or more of each"),
        ({"x": X, "y": Y, "precision": "float16"}, InvalidArgumentError, "precision is 'float16'"),
        ({"x": X, "y": Y, "seed": "a"}, InvalidTypeError, "seed is 'a'"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        auto(**arguments)
