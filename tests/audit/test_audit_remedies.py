"""What an audit says would help: averages over the group."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features
from equitangents.errors import InvalidArgumentError


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


def test_batches_along_another_axis_show_no_layers() -> None:
    x = et.audit.Batch(np.random.default_rng(0).normal(size=(3, 8, 2)), axis=1)
    net = lambda x: x[0]
    report = et.audit(net, "reversal", x, inputs="sequences", layers=[net], **{**QUIET, "off_data": False})
    assert "another axis" in next(m.reason for m in report.missing if m.section == "layers")


def test_an_average_of_a_random_model_is_measured_and_not_called_equivariant() -> None:
    noise = np.random.default_rng(5)
    f = lambda x: features(x) + noise.normal(size=(len(x), 3))
    report = et.audit(f, "C4", IMAGES, relative_to="norm", **QUIET)
    (averaged,) = (r for r in report.remedies if r.name == "orbit averaging")
    # f̄(x) and f̄(ρ(h)x) differ by two means of four draws: √2/2 of a draw's norm, over ‖f(x)‖
    mean = lambda x: sum(f(np.rot90(x, k, (1, 2))) for k in range(4)) / 4
    again = [mean(IMAGES) for _ in range(20)]
    expected = np.mean([np.linalg.norm(a - b, axis=1) / np.linalg.norm(f(IMAGES), axis=1) for a, b in pairwise(again)])
    assert averaged.after.mean == pytest.approx(expected, rel=0.3)
    assert averaged.how == "measured"


def corner_scores(x: np.ndarray) -> np.ndarray:
    """Probabilities of the four corners, which change places under quarter turns."""
    z = np.exp(3 * np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], axis=1))
    return z / z.sum(axis=1, keepdims=True)


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
    assert not any(r.name == "orbit averaging" for r in report.remedies)
    (why,) = (part.reason for part in report.missing if part.section == "orbit averaging")
    assert ("move by another rule" if report.rules else "would be the same for all inputs") in why
    with pytest.raises(InvalidArgumentError, match="expected one that is offered"):
        report.remedy("average")


def test_what_differs_on_inputs_outside_the_sample_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    from equitangents.audit.measure import orbits

    x = quarter_turned(40)[0]
    x[37] = 2 * IMAGES[0]  # whose average over the group is another
    energy = lambda x: np.concatenate([corner_scores(x), np.maximum(np.abs(x).max((1, 2)) - 1.5, 0)], axis=1)
    monkeypatch.setattr(orbits, "_kept_rows", lambda n, numbers, seed: np.arange(8))
    for model, offered in ((energy, True), (corner_scores, False)):
        report = et.audit(model, "C4", x, **QUIET)
        assert any(r.name == "orbit averaging" for r in report.remedies) == offered


@pytest.mark.slow
def test_no_mean_over_random_rotations_is_offered_that_is_the_same_but_for_chance() -> None:
    x = np.random.default_rng(7).normal(size=(40, 3))
    offered = lambda f: any(r.name == "orbit averaging" for r in et.audit(f, "SO3", x, **QUIET).remedies)
    assert not offered(lambda x: x[:, :1])
    assert offered(lambda x: x[:, :1] + np.sum(x * x, axis=1, keepdims=True))
