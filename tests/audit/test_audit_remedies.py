"""What an audit says would help: averages over the group, more members."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features
from equitangents.audit.report.numbers import Estimate
from equitangents.audit.report.page import html
from equitangents.errors import InvalidArgumentError

RNG = np.random.default_rng(0)


def _more_members(report: et.audit.AuditReport) -> et.audit.Remedy:
    return next(r for r in report.remedies if r.name == "more ensemble members")


def test_more_of_identical_members_change_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    x[0] *= 1000  # one output of another size, by which root mean squares and means of ratios differ
    f = lambda x: x[:, :1] + 0.5 * np.abs(x).sum(1, keepdims=True)
    for members in (2, 4):
        remedy = _more_members(et.audit([f] * members, "C4", x, **QUIET))
        assert remedy.error_before == pytest.approx(remedy.error_after)
        assert remedy.before == remedy.after
        assert "more members change nothing" in remedy.note
        assert not re.search(r"\d members bring", remedy.note)


def test_members_are_told_in_one_quantity_before_and_after() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 2))
    slopes = 3 * rng.normal(size=16)
    models = [lambda x, b=b: 10 + b * x[:, :1] for b in slopes - slopes.mean() + 0.3]
    report = et.audit(models, "C4", x, relative_to="norm", **QUIET)
    remedy, section = _more_members(report), report.ensemble
    assert remedy.error_before == pytest.approx(np.sqrt(section.sizes[-1].squared_error.mean))
    mean = lambda x: np.mean([m(x) for m in models], axis=0)
    off = np.array([mean(x @ np.linalg.matrix_power([[0, -1], [1, 0]], k)) - mean(x) for k in (1, 2, 3)])
    assert remedy.error_before == pytest.approx(np.sqrt((off**2).mean() / (mean(x) ** 2).mean()))
    assert remedy.error_after <= remedy.error_before
    for estimate in (remedy.before, remedy.after):
        assert isinstance(estimate, Estimate)
        assert estimate.low <= estimate.mean <= estimate.high
    count = int(re.search(r"about ([\d,]+) members, now 16", remedy.note)[1].replace(",", ""))
    limit2 = section.limit.mean**2
    assert (remedy.passes_before, remedy.passes_after) == (16, count)
    ensemble_inputs = report.timing.parts["ensemble"]  # of single members; all others are of their mean
    assert report.timing.member_passes == ensemble_inputs + 16 * (report.timing.evaluations - ensemble_inputs)
    assert "16 members take" in report.summary()
    assert f"; {count:,} members" in report.summary()
    assert np.sqrt(limit2 + section.finite**2 / count) <= 0.01 < np.sqrt(limit2 + section.finite**2 / (count - 1))


def test_a_remedy_that_makes_the_task_worse_says_so_first() -> None:
    y = (IMAGES[:, 0, 0, 0] > 0).astype(int)
    scores = lambda x: np.stack([-x[:, 0, 0, 0], x[:, 0, 0, 0]], axis=1)
    averaged = lambda report: next(m for m in report.remedies if m.name.startswith("averaging"))
    remedy = averaged(et.audit(scores, "C4", IMAGES, y=y, **QUIET))
    assert remedy.task_before == 0 < remedy.task_after
    assert remedy.note.startswith("makes the model worse at its task: the error rate rises from 0 to")
    report = et.audit(scores, "C4", IMAGES, y=y, **QUIET)
    assert "averaging over the group at test time: makes the model worse" in report.summary()
    assert not report.remedies[0].note.startswith("makes the model worse"), "what ruins the task is not offered first"
    better = averaged(et.audit(scores, "C4", IMAGES, y=1 - y, **QUIET))
    assert "worse" not in better.note


def test_nothing_is_said_to_be_not_measured_twice() -> None:
    report = et.audit(LogisticRegression().fit(IMAGES.reshape(60, -1), RNG.integers(0, 2, 60)), "C8", IMAGES, **QUIET)
    for text in (report.summary(), report.to_markdown(), html(report)):
        assert "not measured: not measured" not in text
        assert "measured: measured" not in text
        assert "dimension 2" not in re.sub(r"\s+", " ", text)


def test_the_average_over_the_group_can_be_had_and_is_equivariant() -> None:
    weights = np.random.default_rng(3).normal(size=(16, 16))
    images = np.random.default_rng(4).normal(size=(12, 4, 4, 1))
    kinds = {"a": None, "b": "images"}

    def f(x: np.ndarray) -> dict[str, np.ndarray]:
        y = np.tanh(x.reshape(len(x), -1) @ weights)
        return {"a": y, "b": y.reshape(x.shape)}

    quiet = {"off_data": False, "data_test": None, "layers": False, "resamples": 100}
    broken = et.audit(f, "D4", images, kinds, **quiet)
    mended = broken.remedy("average")
    assert broken.verdict == "broken"
    assert et.audit(mended, "D4", images, kinds, **quiet).verdict == "equivariant"
    turns = [np.rot90(images, k, (1, 2)) for k in range(4)]
    copies = [*turns, *(t[:, :, ::-1] for t in turns)]
    np.testing.assert_allclose(mended(images)["a"], np.mean([f(c)["a"] for c in copies], axis=0), atol=1e-12)
    with pytest.raises(InvalidArgumentError, match="expected 'average'"):
        broken.remedy("augment")
    with pytest.raises(InvalidArgumentError, match="infinitely many"):
        et.audit(f, "SO2", images, kinds, elements=2, **quiet).remedy("average")
    with pytest.raises(InvalidArgumentError, match="class numbers"):
        et.audit(lambda x: f(x)["a"].argmax(1), "C4", images, **quiet).remedy("average")


@pytest.mark.parametrize("name", ["average", "canonicalise"])
def test_remedies_keep_batches_where_the_model_has_them(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 12, 2))  # time, batch, channels
    weights = np.arange(1.0, 6.0)[:, None, None]
    given = {"inputs": "sequences", "effort": "quick"}
    for out, f in (("sequences", lambda x: (x * weights).cumsum(0)), (None, lambda x: (x * weights)[:2])):
        moves = et.audit.Batch(out, axis=1)
        report = et.audit(f, "reversal", et.audit.Batch(x, axis=1), moves, **given)
        mended = report.remedy(name)
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


def test_batches_along_another_axis_show_no_layers() -> None:
    x = et.audit.Batch(np.random.default_rng(0).normal(size=(3, 8, 2)), axis=1)
    net = lambda x: x[0]
    report = et.audit(net, "reversal", x, inputs="sequences", layers=[net], **{**QUIET, "off_data": False})
    assert "another axis" in next(m.reason for m in report.missing if m.section == "layers")


def test_an_average_of_a_random_model_is_measured_and_not_called_equivariant() -> None:
    noise = np.random.default_rng(5)
    f = lambda x: features(x) + noise.normal(size=(len(x), 3))
    report = et.audit(f, "C4", IMAGES, **QUIET)
    (averaged,) = (r for r in report.remedies if r.name == "averaging over the group at test time")
    # f̄(x) and f̄(ρ(h)x) differ by two means of four draws: √2/2 of a draw's norm, over ‖f̄(x)‖
    mean = lambda x: sum(f(np.rot90(x, k, (1, 2))) for k in range(4)) / 4
    again = [mean(IMAGES) for _ in range(20)]
    expected = np.mean([np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1) for a, b in pairwise(again)])
    assert averaged.error_after == pytest.approx(expected, rel=0.3)
    assert averaged.after.mean > 0.1
    assert "the model's own randomness" in averaged.note
    assert not any(r.name == "canonical inputs" for r in report.remedies)


def corner_scores(x: np.ndarray) -> np.ndarray:
    """Probabilities of the four corners, which change places under quarter turns."""
    z = np.exp(3 * np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], axis=1))
    return z / z.sum(axis=1, keepdims=True)


def two_sided(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.sum(x * x, (1, 2)), np.sin(3 * x[:, :1, 0, 0]) - np.sin(3 * x[:, -1:, -1, 0])], axis=1)


def quarter_turned(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(one picture in four orientations with a little noise in its middle, the orientation)."""
    y = np.arange(count) % 4
    base = np.zeros((4, 4, 1))
    base[0, 0] = 1.0
    return np.stack([np.rot90(base, int(k)) for k in y]), y


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("count", [8, 60], ids=["too few inputs for a rule", "a rule is found"])
def test_no_remedy_is_offered_that_makes_all_outputs_the_same(count: int, with_labels: bool) -> None:
    y = corner_scores(IMAGES).argmax(axis=1)[:count]
    report = et.audit(corner_scores, "C4", IMAGES[:count], y=y if with_labels else None, **QUIET)
    mean = sum(corner_scores(np.rot90(IMAGES[:count], k, (1, 2))) for k in range(4)) / 4
    assert np.ptp(mean, axis=0).max() < 1e-12, "constant by the sums themselves"
    assert not any(r.name.startswith("averaging") for r in report.remedies)
    (why,) = (part.reason for part in report.missing if part.section.startswith("averaging"))
    assert ("moves by another rule" if report.rules else "would be the same for all of them") in why
    with pytest.raises(InvalidArgumentError, match="not offered"):
        report.remedy("average")


def test_a_canonical_position_that_loses_the_answer_is_not_offered() -> None:
    x, _ = quarter_turned(8)
    report = et.audit(corner_scores, "C4", x, **QUIET)
    assert {part.section for part in report.missing} >= {"canonical inputs", "averaging over the group at test time"}
    right = et.audit(corner_scores, "C4", x, et.audit.Labels([3, 0, 1, 2]), **QUIET)
    assert {r.name for r in right.remedies} >= {"canonical inputs", "averaging over the group at test time"}


def test_what_differs_on_inputs_outside_the_sample_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    from equitangents.audit.measure import orbits

    x = quarter_turned(40)[0]
    x[37] = 2 * IMAGES[0]  # whose average over the group is another
    energy = lambda x: np.concatenate([corner_scores(x), np.maximum(np.abs(x).max((1, 2)) - 1.5, 0)], axis=1)
    monkeypatch.setattr(orbits, "_kept_rows", lambda n, numbers, seed: np.arange(8))
    for model, offered in ((energy, True), (corner_scores, False)):
        report = et.audit(model, "C4", x, **QUIET)
        assert any(r.name.startswith("averaging") for r in report.remedies) == offered


def test_no_mean_over_random_rotations_is_offered_that_is_the_same_but_for_chance() -> None:
    x = np.random.default_rng(7).normal(size=(40, 3))
    offered = lambda f: any(r.name.startswith("averaging") for r in et.audit(f, "SO3", x, **QUIET).remedies)
    assert not offered(lambda x: x[:, :1])
    assert offered(lambda x: x[:, :1] + np.sum(x * x, axis=1, keepdims=True))
