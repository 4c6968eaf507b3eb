"""Studies of learning systems: what their claims make of made-up numbers, and which settings they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equitangents import studies
from equitangents.errors import EquitangentsError
from equitangents.statistics import Estimate
from equitangents_studies.common.system_images import load_system_images
from equitangents_studies.gaussian_vs_uniform import study as laws
from equitangents_studies.symmetry_breaking_path import study as along
from equitangents_studies.symmetry_groups import study as groups


def verdicts(claims):
    return [claim.verdict.split()[0] for claim in claims]


class TestSymmetryGroups:
    settings = groups.Settings()

    def results(self, *, kernel=1e-7, change=0.3, coupled=1e-12, p=0.001, alarms=(0.05, 0.02, 0.09), lead=0.2):
        pairs = [(a, g) for a in groups.ARCHITECTURES for g in groups.GROUPS]
        equal = set(groups.entries(True, finite=False))
        alike = set(groups.entries(True, finite=True))
        rng = np.random.default_rng(0)
        right = lambda share: rng.random(2000) < share
        pooled = {a: right({"GAP": 0.3 + 2 * lead, "VEC": 0.3 + lead}.get(a, 0.3)) for a in groups.ARCHITECTURES}
        return groups.Results(
            "textures",
            {pair: kernel if pair in equal else 0.2 for pair in pairs},
            {pair: 1e-6 if pair in equal else change for pair in pairs},
            {pair: right(0.5) for pair in pairs},
            pooled,
            {pair: "coupled" if pair in alike else "two-sample" for pair in pairs},
            {pair: coupled if pair in alike else p for pair in pairs},
            Estimate(*alarms, 0.95),
        )

    def test_all_hold_where_theory_does(self):
        assert verdicts(groups.claims(self.settings, self.results())) == ["holds"] * 6

    @pytest.mark.parametrize(
        ("place", "change", "verdict"),
        [
            (0, {"kernel": 1e-3}, "fails"),
            (0, {"kernel": math.nan}, "not"),
            (1, {"change": 1e-6}, "fails"),
            (1, {"change": math.nan}, "not"),
            (2, {"coupled": 1e-3}, "fails"),
            (2, {"coupled": math.nan}, "not"),
            (3, {"p": 0.3}, "not"),
            (3, {"p": math.nan}, "not"),
            (4, {"alarms": (0.3, 0.2, 0.4)}, "fails"),
            (4, {"alarms": (0.1, 0.03, 0.2)}, "not"),
            (5, {"lead": -0.1}, "fails"),
            (5, {"lead": 0.0}, "not"),
        ],
    )
    def test_a_claim_follows_its_numbers(self, place, change, verdict):
        found = verdicts(groups.claims(self.settings, self.results(**change)))
        assert found[place] == verdict
        assert found[:place] + found[place + 1 :] == ["holds"] * 5

    def test_theorem_4_1_has_so_many_entries(self):
        assert len(groups.entries(True, finite=False)) == 17
        assert len(groups.entries(True, finite=True)) == 16
        assert ("VEC", "O(3)^d") in groups.entries(True, finite=False)
        assert ("VEC", "O(3)^d") in groups.entries(False, finite=True)


class TestSymmetryBreakingPath:
    settings = along.Settings(times=(0.0, 1.0), widths=(4,), members=12)

    def results(self, to_gap, to_limit, noise=0.1):
        rng = np.random.default_rng(0)
        members = lambda mean: mean + noise * rng.standard_normal((12, 20, 2))
        times = self.settings.times
        vec = {(4, t): members(0.0) for t in times}
        gap = {(4, t): members(away) for t, away in zip(times, to_gap, strict=True)}
        limit = {t: np.full((20, 2), away) for t, away in zip(times, to_limit, strict=True)}
        return along.Results("textures", vec, gap, {key: np.ones((2, 12)) for key in vec}, limit)

    def test_distances_along_the_path_decide(self):
        claims = lambda *ends: verdicts(along.claims(self.settings, self.results(*ends)))[:2]
        assert claims((0.5, 2.0), (2.0, 0.5)) == ["holds"] * 2
        assert claims((2.0, 0.5), (0.5, 2.0)) == ["fails"] * 2
        assert claims((1.0, 1.0), (1.0, 1.0)) == ["not"] * 2

    def test_the_share_of_noise_in_plain_estimates_decides_for_and_against_them(self):
        claims = lambda ends, noise: verdicts(along.claims(self.settings, self.results(ends, ends, noise)))[2]
        assert claims((0.0, 0.1), 1.0) == "holds"
        assert claims((1.0, 1.0), 0.1) == "fails"
        assert claims((0.55, 0.55), 0.65) == "not"

    def test_what_is_not_a_number_decides_nothing(self):
        results = self.results((0.5, 2.0), (2.0, 0.5))
        results.vec[4, 1.0][0, 0, 0] = np.nan
        with pytest.raises(EquitangentsError, match="NaN"):
            along.claims(self.settings, results)

    def test_the_distance_is_twice_the_square_for_two_classes(self):
        results = self.results((0.5, 2.0), (2.0, 0.5))
        assert abs(along.distance(results, "VEC", 4, 0.0).value - 2 * 2.0**2) < 0.5
        assert abs(along.plain(results, "GAP", 4, 1.0) - 2 * 2.0**2) < 0.5


class TestGaussianVsUniform:
    settings = laws.Settings()

    def results(self, *, equal=1e-12, p=0.001, lead=0.0, spread=0.003):
        noise = np.random.default_rng(0).normal(size=(6, 8)) * spread
        scores = {
            (law, g): 0.5 + noise[3 * i + j] for i, law in enumerate(laws.LAWS) for j, g in enumerate(laws.GROUPS)
        }
        scores = {key: value + lead * (key[0] == "gaussian") for key, value in scores.items()}
        return laws.Results("textures", scores, dict.fromkeys(laws.COUPLED, equal), p)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({}, ["holds"] * 3),
            ({"equal": 1e-3}, ["fails", "holds", "holds"]),
            ({"equal": math.nan}, ["not", "holds", "holds"]),
            ({"p": 0.2}, ["holds", "not", "holds"]),
            ({"p": math.nan}, ["holds", "not", "holds"]),
            ({"p": 0.01}, ["holds", "holds", "holds"]),
            ({"lead": 0.1}, ["holds", "holds", "fails"]),
            ({"spread": 0.2}, ["holds", "holds", "not"]),
        ],
    )
    def test_claims_follow_their_numbers(self, change, expected):
        assert verdicts(laws.claims(self.settings, self.results(**change))) == expected

    def test_a_p_value_is_not_called_deterministic(self):
        assert laws.claims(self.settings, self.results())[1].uncertainty == "a p-value, which has no interval"
        tested = groups.claims(groups.Settings(), TestSymmetryGroups().results())[3]
        assert tested.uncertainty == "a p-value, which has no interval"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("symmetry-groups", {"pixels": "4"}, "pixels was 4"),
        ("symmetry-groups", {"data": "imagenet"}, "data was 'imagenet'"),
        ("symmetry-groups", {"pooled_images": "9999"}, "pooled_images was 9999"),
        ("symmetry-breaking-path", {"times": "0.5,1"}, "times was"),
        ("symmetry-breaking-path", {"members": "3"}, "members was 3"),
        ("symmetry-breaking-path", {"data": "digits"}, "O.1. has no path"),
        ("gaussian-vs-uniform", {"members": "4"}, "members was 4"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(name, change, message, tmp_path):
    settings = {"data": "textures"} | change
    with pytest.raises(EquitangentsError, match=message):
        studies.run(name, out=tmp_path / "run", settings=settings, progress=False)
    assert not (tmp_path / "run").exists()


def test_images_are_those_of_the_folder_where_it_has_them_and_generated_ones_else(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    few = {"train": 30, "test": 7, "pixels": 8, "seed": 0}
    generated = load_system_images("auto", tmp_path, **few)
    assert (generated.name, generated.classes, generated.train_x.shape) == ("textures", 10, (30, 8, 8, 3))
    x = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3)).astype(np.uint8)
    y = np.arange(60) % 10
    np.savez(tmp_path / "cifar10.npz", train_x=x[:40], train_y=y[:40], test_x=x[40:], test_y=y[40:])
    kept = load_system_images("auto", tmp_path, **few)
    assert (kept.name, kept.train_x.shape, len(kept.test_x)) == ("cifar10", (30, 8, 8, 3), 7)
    assert np.max(np.abs(kept.train_x.mean(axis=(1, 2, 3)))) < 1e-5
