"""Layers, ensembles, data and remedies: each part finds what was put there, and nothing where nothing was."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise

import jax
import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features
from equitangents.audit import parts
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

N = et.nn


def group_network(*breaking: int, **changes: object) -> et.nn.Sequential:
    """Convolutions on the torus with pooling over all of it: invariant under translations."""
    layers = [
        N.Conv(6, (3, 3), b_std=0.3), N.Relu(), N.Conv(6, (3, 3), b_std=0.3), N.Relu(), N.Conv(6, (2, 3)), N.Relu(),
        N.GlobalAvgPool(), N.Dense(3),
    ]  # fmt: skip
    for i in breaking:
        layers[i] = dataclasses.replace(layers[i], **changes)
    return N.Sequential(*layers)


@pytest.mark.slow
@pytest.mark.parametrize("at", [None, 0, 2, 4])
def test_the_layer_that_breaks_translations_is_named(at: int | None) -> None:
    changes = {None: {}, 0: {"padding": "zero"}, 2: {"stride": 2}, 4: {"padding": "zero"}}
    net, seed = group_network(*(() if at is None else (at,)), **changes[at]), at or 0
    x = np.random.default_rng(seed).normal(size=(26, 4, 4, 1)).astype(np.float32)
    params = net.init(jax.random.key(seed), (4, 4, 1))
    report = et.audit((net, params), "translations", x, layers=True, **{**QUIET, "elements": 5})
    broken = [layer.broken for layer in report.layers.layers]
    if at is None:
        assert (report.verdict, report.layers.guilty, any(broken)) == ("equivariant", None, False)
    else:
        assert (report.verdict, report.layers.reason) == ("broken", "layer")
        assert report.layers.guilty.startswith(f"{at}: Conv")
        assert report.layers.layers[broken.index(True)].name == report.layers.guilty


def test_functions_may_be_given_as_layers() -> None:
    x = np.random.default_rng(0).normal(size=(20, 4, 4, 2))
    w = np.random.default_rng(1).normal(size=(4, 4, 2))
    weighted, summed = lambda x: x * w, lambda x: x.sum((1, 2))
    f = lambda x: summed(weighted(np.tanh(x)))
    section = et.audit(f, "C4", x, layers=[np.tanh, ("weights", weighted), summed], **QUIET).layers
    assert (section.guilty, [layer.broken for layer in section.layers]) == ("weights", [False, True, True])
    assert et.audit(f, "C4", x, layers=False, **QUIET).layers is None
    section = et.audit(lambda x: summed(np.tanh(x)), "C4", x, layers=[np.tanh, summed], **QUIET).layers
    assert section.guilty is None
    assert not any(layer.broken for layer in section.layers)
    nearly = lambda x: x * (1 + 1e-5 * w).astype(x.dtype)
    for dtype, seen in ((np.float32, False), (np.float64, True)):
        section = et.audit(lambda x: summed(nearly(x)), "C4", x.astype(dtype), layers=[nearly, summed], **QUIET).layers
        assert section.layers[0].broken is seen, "one part in 100,000 is rounding in single precision only"
    waves, phases = lambda x: np.fft.fft(x, axis=1), lambda z: np.angle(z[:, 1])
    report = et.audit(lambda x: phases(waves(x)), "translations", x[:, 0], layers=[waves, ("phases", phases)], **QUIET)
    assert report.layers.guilty == "phases", "shifts multiply waves by phases"
    along = et.audit.Batch(np.random.default_rng(0).normal(size=(3, 8, 2)), axis=1)
    first = lambda x: x[0]
    report = et.audit(first, "reversal", along, inputs="sequences", layers=[first], **QUIET)
    assert "not along the first axis" in next(m.reason for m in report.missing if m.section == "layers")


def synthetic(members: int, common: float, own: float, seed: int) -> tuple[list, np.ndarray]:
    """Members x ↦ 1 + (common·a + own·b_m)·x₀ with normal b_m, on vectors that the group turns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 2))
    b = own * rng.normal(size=(members, 1))
    return [lambda x, b=b: 10 + (common + b) * x[:, :1] for b in b], x


def test_the_law_of_ensembles_separates_what_members_cure() -> None:
    models, x = synthetic(256, common=0.0, own=1.0, seed=0)
    cured = et.audit(models, "C4", x, **QUIET).ensemble
    assert (cured.members, cured.limit.low) == (256, 0)
    assert cured.limit.high < cured.finite / 4  # twice t/√256: what 256 members tell from 0, on either side of it
    models, x = synthetic(64, common=1.0, own=1.0, seed=1)
    stays = et.audit(models, "C4", x, **QUIET).ensemble
    assert stays.limit.low > 0
    f, turn = lambda x: 10 + x[:, :1], np.array([[0.0, -1.0], [1.0, 0.0]])
    off = [np.mean((f(x @ np.linalg.matrix_power(turn, k)) - f(x)) ** 2) for k in (1, 2, 3)]
    expected = np.sqrt(np.mean(off) / np.mean(f(x) ** 2))
    assert stays.limit.low < expected < stays.limit.high
    for size in stays.sizes:
        assert size.fitted == pytest.approx(stays.limit.mean**2 + stays.finite**2 / size.members)


@pytest.mark.slow
def test_deep_ensembles_beside_their_theory() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(16, 3, 3, 1)), rng.normal(size=9)
    y = (x.reshape(16, -1) @ w)[:, None] / 3
    net = N.Sequential(N.Flatten(), N.Dense(256, W_std=1.4, b_std=0.3), N.Relu(), N.Dense(1))
    settings = {"learning_rate": 1.0}
    deep = et.DeepEnsemble(net, members=24, optimizer="gd", epochs=10, **settings).fit(x, y)
    wide = et.InfiniteEnsemble(net, dynamics="discrete", time=10, **settings).fit(x, y)
    asked = rng.normal(size=(12, 3, 3, 1))
    report = et.audit(deep, "C4", asked, **QUIET)
    law = report.ensemble
    assert (report.model.kind, law.members) == ("deep ensemble", 24)
    means = [wide.predict(np.rot90(asked, k, (1, 2))) for k in range(4)]  # of all inputs
    squared = np.mean([np.sum((m - means[0]) ** 2) for m in means[1:]]) / np.sum(means[0] ** 2)
    assert law.limit.mean == pytest.approx(np.sqrt(squared), rel=0.5)
    assert report.layers.guilty.startswith("1: Dense")
    infinite = et.audit(wide, "C4", rng.normal(size=(6, 3, 3, 1)), **QUIET)
    assert (infinite.model.kind, infinite.ensemble) == ("infinite ensemble", None)


def test_estimators_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    images, y = rng.normal(size=(60, 4, 4, 1)), rng.integers(0, 3, 60)
    flat = images.reshape(60, -1)
    forest = RandomForestClassifier(10, random_state=0).fit(flat, y)
    report = et.audit(forest, "C4", images, y=y, **QUIET)
    assert (report.model.kind, report.model.name) == ("scikit-learn", "RandomForestClassifier")
    assert (report.headline.unit, report.ensemble.members) == ("probability", 10)
    literal = et.metrics.equivariance_error(
        lambda x: forest.predict_proba(x.reshape(len(x), -1)), et.actions.image_rotations(4), images
    )
    np.testing.assert_allclose(report.errors, literal.errors[1:])
    for estimator, members in (
        (RandomForestRegressor(5, random_state=0), 5),
        (BaggingRegressor(Ridge(), n_estimators=4, random_state=0), 4),
        (GradientBoostingRegressor(n_estimators=4), None),
        (Ridge(), None),
    ):
        found = et.audit(estimator.fit(flat, y), "C4", images, **QUIET)
        assert (found.ensemble and found.ensemble.members) == members


def test_the_mean_of_all_members_is_the_model() -> None:
    x, numbers = IMAGES[:40], np.arange(40)  # as many as the law is measured on
    flat, y = x.reshape(40, -1), np.where(numbers == 7, 6, numbers % 2)
    bagging = BaggingClassifier(KNeighborsClassifier(1), 5, random_state=0).fit(flat, y)  # some lack the rare class
    assert {len(member.classes_) for member in bagging.estimators_} == {2, 3}
    net, how = N.Sequential(N.Flatten(), N.Dense(8), N.Relu(), N.Dense(3)), {"members": 4, "epochs": 0}
    deep = et.DeepEnsembleClassifier(net, **how).fit(x, y)
    for model, shaped in ((bagging, lambda x: x.reshape(len(x), -1)), (deep, lambda x: x)):
        p = [model.predict_proba(shaped(np.rot90(x, k, (1, 2)))) for k in range(4)]
        squared = np.mean([((q - p[0]) ** 2).sum(axis=1) for q in p[1:]]) / np.mean((p[0] ** 2).sum(axis=1))
        law = et.audit(model, "C4", x, **QUIET).ensemble
        assert law.sizes[-1].squared_error.mean == pytest.approx(squared, rel=1e-4)
    votes = et.DeepEnsembleClassifier(net, **how, loss="mse").fit(x, y)  # probabilities are no mean over members
    assert et.audit(votes, "C4", x, **QUIET).ensemble is None
    with pytest.raises(InvalidTypeError, match="real numbers"):
        et.audit([lambda x: x[:, 0, 0].argmax(1), lambda x: x[:, 1, 1].argmax(1)], "C4", x, **QUIET)


def test_a_copy_is_refitted_on_the_classes_and_inputs_of_the_model() -> None:
    flat, y = IMAGES.reshape(len(IMAGES), -1), np.arange(len(IMAGES)) % 3
    forest = RandomForestClassifier(3, random_state=0).fit(flat, y)
    for train, error in (
        ((IMAGES, y + 1), InvalidArgumentError), ((IMAGES, np.minimum(y, 1)), InvalidArgumentError),
        ((IMAGES, y[:3]), ShapeError), ((flat, y), ShapeError), (IMAGES, InvalidTypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="train"):
            et.audit(forest, "C4", IMAGES, train=train, **QUIET)


def test_remedies_are_measured() -> None:
    rng = np.random.default_rng(7)
    x, x_new = rng.normal(size=(120, 4, 4, 1)), rng.normal(size=(50, 4, 4, 1))
    y, y_new = ((x**2).sum((1, 2, 3)) for x in (x, x_new))
    forest = RandomForestRegressor(20, random_state=0).fit(x.reshape(120, -1), y)
    report = et.audit(forest, "C4", x_new, y=y_new, train=(x, y), **QUIET)
    averaging, augmentation = (
        next(r for r in report.remedies if r.name == n) for n in ("orbit averaging", "training with augmentation")
    )
    f = lambda x: forest.predict(x.reshape(len(x), -1))
    averaged = np.mean([f(np.rot90(x_new, k, (1, 2))) for k in range(4)], axis=0)
    rmse = lambda found: np.sqrt(np.mean((found - y_new) ** 2))
    assert (averaging.how, averaging.after.mean, augmentation.how) == ("exact", 0, "refitted")
    assert averaging.task_before == pytest.approx(rmse(f(x_new)))
    assert averaging.task_after == pytest.approx(rmse(averaged))
    assert averaging.task_after < averaging.task_before
    assert augmentation.after.mean < report.headline.error.estimate.mean
    unknown = et.audit(f, "C4", x_new, **QUIET).remedies
    assert {r.name: r.how for r in unknown} == {averaging.name: "exact", augmentation.name: "no refit"}


def test_a_part_says_why_it_is_missing_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "worst_input", lambda m: "it is not known today")
    x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    report = et.audit(lambda x: x[:, 0, 0], "C4", x, layers=False, resamples=50)
    missing = {m.section: m.reason for m in report.missing}
    assert (missing["layers"], missing["witness"]) == ("layers=False", "it is not known today")
    assert (report.layers, report.witness) == (None, None)
    assert [r.name for r in report.remedies] == ["orbit averaging", "training with augmentation"]
    assert [s.name for s in report.sets] == ["data", "noise", "shuffled"]


def test_long_names_of_layers_are_folded() -> None:
    rng = np.random.default_rng(5)
    kernel, weights = 1 + 0.05 * rng.normal(size=(4, 4, 1)), rng.normal(size=(16, 8))
    long = "encoder." + "block." * 40 + "conv"
    conv, relu = lambda x: x * kernel, lambda x: np.maximum(x, 0)
    dense = lambda x: x.reshape(len(x), -1) @ weights
    layers = [(long, conv), ("relu", relu), ("dense", dense)]
    report = et.audit(lambda x: dense(relu(conv(x))), "C4", IMAGES, layers=layers, **QUIET)
    section = report.layers
    assert (section.guilty, section.reason) == (long, "layer")
    assert long not in "".join(re.findall(r"<!-- (.*?) -->", report.html())), "long names fold in drawings"
    assert f"| {long} |" not in report.to_markdown()


def test_a_remedy_that_makes_the_task_worse_comes_last() -> None:
    y = (IMAGES[:, 0, 0, 0] > 0).astype(int)
    scores = lambda x: np.stack([-x[:, 0, 0, 0], x[:, 0, 0, 0]], axis=1)
    averaged = lambda y: et.audit(scores, "C4", IMAGES, y=y, **QUIET).remedies
    *_, remedy = averaged(y)
    assert remedy.name == "orbit averaging"
    assert remedy.worse
    assert remedy.task_before == 0 < remedy.task_after
    mean = sum(scores(np.rot90(IMAGES, k, (1, 2))) for k in range(4)) / 4
    assert remedy.task_after == pytest.approx((mean.argmax(1) != y).mean())
    assert (remedy.cost, remedy.cost_unit) == (4, "evaluations per input")
    better = averaged(1 - y)[0]
    assert (better.name, better.worse) == ("orbit averaging", False)


def test_the_average_over_the_group_can_be_had_and_is_equivariant() -> None:
    weights = np.random.default_rng(3).normal(size=(16, 16))
    images = np.random.default_rng(4).normal(size=(12, 4, 4, 1))
    kinds = {"a": None, "b": "images"}

    def f(x: np.ndarray) -> dict[str, np.ndarray]:
        y = np.tanh(x.reshape(len(x), -1) @ weights)
        return {"a": y, "b": y.reshape(x.shape)}

    broken = et.audit(f, "D4", images, kinds, **QUIET)
    mended = broken.remedy("average")
    assert (broken.verdict, et.audit(mended, "D4", images, kinds, **QUIET).verdict) == ("broken", "equivariant")
    turns = [np.rot90(images, k, (1, 2)) for k in range(4)]
    copies = [*turns, *(t[:, :, ::-1] for t in turns)]
    np.testing.assert_allclose(mended(images)["a"], np.mean([f(c)["a"] for c in copies], axis=0), atol=1e-12)
    for report, name, said in (
        (broken, "augment", "expected 'average'"),
        (et.audit(f, "SO2", images, kinds, elements=2, **QUIET), "average", "infinitely many"),
        (et.audit(lambda x: f(x)["a"].argmax(1), "C4", images, **QUIET), "average", "class numbers"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            report.remedy(name)


def test_the_average_keeps_batches_where_the_model_has_them() -> None:
    x = np.random.default_rng(0).normal(size=(5, 12, 2))  # time, batch, channels
    weights = np.arange(1.0, 6.0)[:, None, None]
    given = {"inputs": "sequences", "effort": "quick"}
    for out, f in (("sequences", lambda x: (x * weights).cumsum(0)), (None, lambda x: (x * weights)[:2])):
        moves = et.audit.Batch(out, axis=1)
        report = et.audit(f, "reversal", et.audit.Batch(x, axis=1), moves, **given)
        mended = report.remedy("average")
        assert report.verdict == "broken"
        assert mended(x).shape == f(x).shape
        assert et.audit(mended, "reversal", et.audit.Batch(x, axis=1), moves, **given).verdict == "equivariant"


def test_models_of_one_size_are_filled_up_along_their_own_axis() -> None:
    x = np.random.default_rng(0).normal(size=(3, 10, 2))

    def fixed(x: np.ndarray) -> np.ndarray:
        if x.shape[1] != 4:
            raise ValueError("batches of 4 alone")
        return x.sum(0, keepdims=True)

    along = et.audit.Batch(None, axis=1)
    report = et.audit(fixed, "reversal", et.audit.Batch(x, axis=1), along, inputs="sequences", batch_size=4, **QUIET)
    assert report.verdict == "equivariant"


def test_an_average_of_a_random_model_is_measured_and_not_called_equivariant() -> None:
    noise = np.random.default_rng(5)
    f = lambda x: features(x) + noise.normal(size=(len(x), 3))
    report = et.audit(f, "C4", IMAGES, relative_to="norm", **QUIET)
    (averaged,) = (r for r in report.remedies if r.name == "orbit averaging")
    # f̄(x) and f̄(ρ(h)x) differ by two means of four draws: √2/2 of a draw's norm, over ‖f(x)‖
    mean = lambda x: sum(f(np.rot90(x, k, (1, 2))) for k in range(4)) / 4
    again = [mean(IMAGES) for _ in range(20)]
    expected = np.mean([np.linalg.norm(a - b, axis=1) / np.linalg.norm(f(IMAGES), axis=1) for a, b in pairwise(again)])
    assert (averaged.after.mean, averaged.how) == (pytest.approx(expected, rel=0.3), "measured")


def corner_scores(x: np.ndarray) -> np.ndarray:
    """Probabilities of the four corners, which change places under quarter turns."""
    z = np.exp(3 * np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], axis=1))
    return z / z.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("count", [8, 60])
def test_no_remedy_is_offered_that_makes_all_outputs_the_same(count: int, with_labels: bool) -> None:
    y = corner_scores(IMAGES).argmax(axis=1)[:count]
    report = et.audit(corner_scores, "C4", IMAGES[:count], y=y if with_labels else None, **QUIET)
    mean = sum(corner_scores(np.rot90(IMAGES[:count], k, (1, 2))) for k in range(4)) / 4
    assert np.ptp(mean, axis=0).max() < 1e-12, "constant by the sums themselves"
    assert not any(r.name == "orbit averaging" for r in report.remedies)
    (why,) = (part.reason for part in report.missing if part.section == "orbit averaging")
    assert "would be the same for all inputs" in why
    with pytest.raises(InvalidArgumentError, match="expected one that is offered"):
        report.remedy("average")


def test_what_differs_on_inputs_outside_the_sample_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    base = np.zeros((4, 4, 1))
    base[0, 0] = 1.0
    x = np.stack([np.rot90(base, k % 4) for k in range(40)])
    x[37] = 2 * IMAGES[0]  # whose average over the group is another
    energy = lambda x: np.concatenate([corner_scores(x), np.maximum(np.abs(x).max((1, 2)) - 1.5, 0)], axis=1)
    monkeypatch.setattr("equitangents.audit.measure.orbits._kept_rows", lambda n, numbers, seed: np.arange(8))
    for model, offered in ((energy, True), (corner_scores, False)):
        report = et.audit(model, "C4", x, **QUIET)
        assert any(r.name == "orbit averaging" for r in report.remedies) == offered


def test_averaging_over_a_sample_leaves_what_two_samples_differ_by() -> None:
    x = np.random.default_rng(8).normal(size=(60, 5, 1))
    ask = lambda e: et.audit(lambda x: 5 + x[:, 0], "S_n", x, elements=e, relative_to="norm", **QUIET).remedies[0]
    few, many = ask(7), ask(112)
    assert few.how == many.how == "sampled"
    assert few.after.mean / many.after.mean == pytest.approx(4, rel=0.5)
    # a mean over e random elements differs from another by √(2 / e) of the deviations over positions
    expected = (x[..., 0].std(axis=1) / np.abs(5 + x[:, 0, 0])).mean() * np.sqrt(2 / 112)
    assert many.after.mean == pytest.approx(expected, rel=0.1)


def test_no_mean_over_infinitely_many_elements_is_offered() -> None:
    x = np.random.default_rng(7).normal(size=(40, 3))
    report = et.audit(lambda x: x[:, :1] + np.sum(x * x, axis=1, keepdims=True), "SO3", x, **QUIET)
    assert not any(r.name == "orbit averaging" for r in report.remedies)
    assert "infinitely many" in next(m.reason for m in report.missing if m.section == "orbit averaging")
