"""small-data: verdicts follow from the numbers, made up here; kernels are averaged over flips; forests see study."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import data, nn
from equitangents.errors import InvalidArgumentError
from equitangents_studies.small_data import study
from equitangents_studies.small_data.claims import BEST, claims, headline
from equitangents_studies.small_data.study import FOREST, MODELS, Results

SIZES = (10, 640, 1280)
SETTINGS = dataclasses.replace(study.PRESETS["desk"], sizes=SIZES)


def results(lead, equal=1e-12, sizes=SIZES, **shares):
    """Each model is right on its share of 200 images, others in each draw; BEST on `lead` percent more than 40."""
    images = (np.random.default_rng(0).permutation(200) + 0.5) / 200
    rolled = np.stack([np.roll(images, 10 * draw) for draw in range(20)])
    chances = {model: np.full(len(sizes), 0.4) for model in MODELS}
    chances[BEST] = 0.4 + np.array(lead) / 100
    chances |= {name: np.full(len(sizes), share) for name, share in shares.items()}
    right = {model: np.stack([rolled < share for share in chances[model]]) for model in MODELS}
    return Results(right, np.full(len(sizes), 0.01), {"a": equal}, "cifar10", (12, 12, 3), 1600)


def test_leads_of_2_points_hold_up_to_640_images_and_fail_beyond():
    others = {FOREST: 0.3, "FCN NTK": 0.3, "Myrtle-5 NNGP": 0.45, "Myrtle-5 NNGP, exponential": 0.5}
    found = claims(SETTINGS, results((2, 2, 2), **others))
    assert [c.verdict for c in found] == ["holds", "holds", "fails", "holds", "holds", "holds", "fails", "holds"]
    assert found[0].claim == "With 10 to 640 images Myrtle-5 NTK is ahead of the trained CNN by 1 to 3 points"
    title, said = headline(SETTINGS, results((2, 2, 2), **others))
    assert title == "With 10 to 640 images the Myrtle-5 NTK is 2.00 percentage points ahead of the trained CNN"
    assert said.endswith("(the source, against ResNet-34: 1 to 3 points).")
    assert [c.origin for c in found[:3]] == ["source", "source", "ours"]
    assert (
        "has not caught up after 13 passes over its images: the kernel’s lead with 1,280 images is 2.0 points"
        in found[2].meaning
    )


def test_leads_outside_1_to_3_points_and_a_kernel_that_is_behind_or_wrong_fail():
    others = {FOREST: 0.5, "FCN NTK": 0.5, "Myrtle-5 NNGP": 0.3, "Myrtle-5 NNGP, exponential": 0.25}
    found = claims(SETTINGS, results((8, -2, -2), 1e-3, **others))
    assert [c.verdict for c in found] == ["not decidable at this size", "fails", "holds", *["fails"] * 5]
    assert found[0].value == pytest.approx(3)
    assert "8.0 (10 training images), -2.0 (640 training images)" in found[0].meaning
    assert claims(SETTINGS, results((8, 2, -2), **others))[0].verdict == "fails"


def test_the_nngp_and_the_ntk_are_alike_within_a_point():
    for share, verdict in ((0.405, "holds"), (0.45, "fails")):
        found = claims(SETTINGS, results((0, 0, 0), **{"Myrtle-5 NNGP": share}))
        assert next(c for c in found if "alike" in c.claim).verdict == verdict


def test_numbers_that_are_none_decide_nothing():
    one = dataclasses.replace(SETTINGS, sizes=(10,))
    found = claims(one, results((0,), np.nan, (10,)))
    assert {c.verdict for c in found} == {"not decidable at this size"}


def test_kernels_averaged_over_flips_are_those_of_both_orders(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
    x, test = (np.random.default_rng(n).standard_normal((n, 4, 4, 5)).astype(np.float32) for n in (5, 2))
    net = nn.Sequential(nn.Conv(1, 3, padding="zero"), nn.Relu(), nn.Flatten(), nn.Dense(1))
    steps = []
    found = study.averaged_kernels(net, x, test, lambda done, total: steps.append(done / total))
    for kind in study.KINDS:
        for a, K in ((x, found[kind][0]), (test, found[kind][1])):
            both = [np.asarray(getattr(net.kernel(a.astype(float), b.astype(float)), kind)) for b in (x, study.flip(x))]
            np.testing.assert_allclose(K, (both[0] + both[1]) / 2, rtol=1e-5)
    assert steps[-1] == 1


def test_a_network_whose_kernel_flips_change_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
    x = np.random.default_rng(0).standard_normal((3, 4, 4, 5)).astype(np.float32)
    net = nn.Sequential(nn.Conv(1, 3, stride=2, padding="zero"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    with pytest.raises(InvalidArgumentError, match="not invariant under flips"):
        study.averaged_kernels(net, x, x, lambda done, total: None)


def test_digits_stand_in_where_the_data_folder_has_no_cifar10(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    assert study.source(study.Settings(), tmp_path) == "digits"
    (tmp_path / "cifar10.npz").touch()
    assert study.source(study.Settings(), tmp_path) == "cifar10"
    with pytest.raises(data.DataNotFoundError):
        study.check_settings(study.Settings(data="cifar10"), None)
    images = study.load(study.Settings(), None)
    assert images.train_x.shape == (240, 8, 8, 1)
    draws = study.training_sets(study.Settings(), images, 20)
    assert len(draws) == 20
    assert all((np.abs(np.bincount(images.train_y[rows], minlength=10) - 2) <= 1).all() for rows in draws)
    assert not np.array_equal(np.sort(draws[0]), np.sort(draws[1]))


def test_settings_that_cannot_be_used_are_refused():
    for change, words in (
        ({"sizes": (10, 10)}, "sizes was .*; it must be increasing"),
        ({"sizes": (5, 20)}, "at least the number of classes, 10"),
        ({"pool": 160}, "pool was 160; it must be larger than the largest size"),
        ({"tuned": 30}, "tuned was 30; it must be at most draws, 20"),
        ({"rates": ()}, "rates was"),
        ({"pixels": 6}, "pixels was 6; it must be a multiple of 4"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            study.check_settings(study.Settings(data="digits", **change), None)
    study.check_settings(study.Settings(data="digits", tuned=20), None)  # all draws


def test_a_network_that_diverged_is_right_about_no_image():
    class Diverged:
        def predict(self, x):
            return np.array([[0.0, 1.0], [np.nan, 0.0], [0.0, np.inf]])

    assert study.classified(Diverged(), np.zeros((3, 2, 2, 1))).tolist() == [1, -1, -1]


def test_forests_see_both_copies_and_answer_alike_for_both():
    few = study.Settings(data="digits", trees=5, draws=2, pool=40, test_images=20)
    images = study.load(few, None)
    draws = study.training_sets(few, images, 20)
    found = [study.forests(few, one, draws, lambda done, total: None)["right"] for one in (images, images)]
    assert np.array_equal(*found)
    assert found[0].shape == (2, 20)
    seen = dataclasses.replace(images, sets={"test": study.flip(images.sets["test"])})
    assert np.array_equal(study.forests(few, seen, draws, lambda done, total: None)["right"], found[0])


class _Reader:
    """Reads the class off an image, but for the first, which it takes for the next class; at other rates for all."""

    def __init__(self, rate):
        self.rate = rate

    def predict(self, x):
        classes = x[:, 0, 0, 0].astype(int)
        wrong = (x[:, 0, 0, 1] == 0) | (self.rate != 0.2)
        return np.eye(3)[(classes + wrong) % 3]


def test_networks_are_right_where_the_class_is_that_of_the_image_and_learn_at_the_best_rate(monkeypatch):
    y, numbers = np.arange(12) % 3, np.arange(12)
    x = np.stack([np.broadcast_to(v[:, None, None], (12, 2, 2)) for v in (y, numbers)], axis=-1).astype(float)
    monkeypatch.setattr(study, "train", lambda settings, images, rows, rate, seed: _Reader(rate))
    images = SimpleNamespace(train_x=x, train_y=y, test_y=y, sets={"test": x})
    chosen = study.Settings(data="digits", rates=(0.1, 0.2, 0.4), tuned=2)
    steps = []
    found = study.networks(chosen, images, [np.arange(4)] * 5, lambda done, total: steps.append(done / total))
    assert found["rate"] == 0.2
    assert found["right"].tolist() == [[False] + [True] * 11] * 5
    assert np.allclose(steps, (np.arange(11) + 1) / 11)
