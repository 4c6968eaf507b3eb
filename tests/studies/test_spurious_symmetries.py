"""The study of spurious symmetries: its rank test, its groups, its pools, and what claims make of made-up numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from equitangents_studies.common.system_runs import repeated_images
from equitangents_studies.spurious_symmetries import study
from equitangents_studies.spurious_symmetries.page import claims
from equitangents_studies.spurious_symmetries.study import (
    ARCHITECTURES,
    GROUPS,
    INFERENCES,
    PoolErrors,
    SpuriousResults,
    extra,
    folds_of,
    measure_pool,
)
from equitangents_studies.systems import architecture
from studies.small import follow


class TestGroups:
    def test_the_order_is_that_of_the_design(self):
        named = {(GROUPS[i], GROUPS[j]) for i, j in study.by_data()}
        chain = ("I", "O(3)xI", "O(3)^d", "O(3d)")
        assert named == set(itertools.combinations(chain, 2)) | {("I", "P(3d)"), ("P(3d)", "O(3d)")}

    def test_wide_vec_has_a_larger_group_than_trained_vec(self):
        assert [study.own_group("VEC", how) for how in INFERENCES] == ["O(3)^d", "O(3)xI", "O(3)xI"]
        assert {study.own_group("FCN", how) for how in INFERENCES} == {"O(3d)"}
        assert len(study.by_model("NTK")) > 0

    def test_a_symmetry_is_spurious_whether_the_data_or_the_model_has_it(self):
        clean = {(a, g) for a in ARCHITECTURES for g in GROUPS if not study.spurious(a, g)}
        assert clean == set(itertools.product(("VEC", "GAP", "LAP4", "LAP8"), ("I", "O(3)xI")))


class TestPools:
    def test_every_image_is_tested_once_and_never_trained_on_then(self):
        found = folds_of(20, 4, 0)
        assert sorted(np.concatenate([test for _, test in found])) == list(range(20))
        assert all(sorted([*order, *test]) == list(range(20)) for order, test in found)

    def test_accuracies_are_those_of_kernel_regression_and_killed_runs_go_on_from_their_tiles(self, tmp_path):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(30, 2, 2, 3)).astype(np.float32), np.arange(30) % 3
        sizes = np.array([10, 20])

        def stopped(done, total):
            raise KeyboardInterrupt

        given = ("FCN", 1, x, y, ("I", "O(3d)"), sizes, 3, 1e-4, 0, tmp_path)
        with pytest.raises(KeyboardInterrupt):
            measure_pool(*given, stopped)
        kept = {path: path.stat().st_ino for path in tmp_path.glob("0/ntk/c/*/*")}
        assert len(kept) == 1
        pool = PoolErrors(("I", "O(3d)"), sizes, **measure_pool(*given, lambda done, total: None))
        assert kept == {path: path.stat().st_ino for path in kept}
        K = np.asarray(architecture("FCN", 1).kernel(x.astype(np.float64)).ntk)
        ridge = 1e-4 * np.trace(K) / 30
        for (order, test), errors in zip(folds_of(30, 3, 0), pool.errors.T, strict=True):
            for n, found in zip(sizes, errors, strict=True):
                few = order[:n]
                weights = np.linalg.solve(K[np.ix_(few, few)] + ridge * np.eye(n), np.eye(3)[y[few]] - 1 / 3)
                assert ((K[np.ix_(test, few)] @ weights).argmax(axis=1) != y[test]).mean() == pytest.approx(found)
        assert np.max(pool.equal) <= 1e-5

    def test_extra_images_are_those_that_the_better_curve_saves(self):
        sizes = np.array([100, 200, 400, 800])
        rng = np.random.default_rng(0)
        better, worse = (made_pool(sizes, 4 * (sizes / shift) ** -0.5, rng) for shift in (1.0, 4.0))
        assert extra(better, worse).value == pytest.approx(600, abs=60)  # 800 against 200

    def test_a_curve_never_met_saves_no_more_than_was_measured(self):
        sizes = np.array([100, 200])
        pool = made_pool(sizes, np.array([0.5, 0.4]), np.random.default_rng(0))
        assert pool.size_for(np.full(6, 0.9)).tolist() == pytest.approx([100.0] * 6)
        assert pool.size_for(np.full(6, 0.01)).tolist() == pytest.approx([200.0] * 6)


def made_pool(sizes, errors, rng, tested=500, equal=1e-7):
    wrong = (rng.random((len(sizes), 6, tested)) < np.asarray(errors)[:, None, None]).mean(axis=2)
    return PoolErrors(GROUPS, np.asarray(sizes), wrong, np.full(5, equal))


class TestClaims:
    def results(
        self, *, equal=1e-7, fall=3.0, by_model=3.0, networks=5.0, gap=0.1, shift=8.0, learnt=1.0, at=0.33, draws=0.0,
        apart=0.0,
    ):  # fmt: skip
        """Accuracies that fall by `fall` per group and `by_model` per own group; networks ahead or behind."""
        rng = np.random.default_rng(0)
        own = {"I": 0, "O(3)xI": 1, "O(3)^d": 2, "P(3d)": 2, "O(3d)": 3}
        best = {}
        for a, how in itertools.product(ARCHITECTURES, INFERENCES):
            rows = []
            for g in GROUPS:
                ahead = 0 if how == "NTK" else -networks if study.spurious(a, g) else networks
                level = 60 - fall * own[g] - by_model * own[study.own_group(a, "NTK")] + ahead
                rows.append(level + rng.normal(size=4) * 0.3)
            best[a, how] = np.array(rows) / 100
        best["LCN", "NTK"] = best["VEC", "NTK"] + apart
        share = {key: np.full((5, 4), learnt if key[1] != "NTK" else 1.0) for key in best}
        sizes, wide = np.array([20, 80, 320, 1280, 2000]), np.array([156, 625, 2500, 10_000])
        law = lambda end, n: np.minimum(end * (n / 45_000) ** -0.1, 0.9)
        made = lambda n, errors, equal=1e-7: made_pool(n, errors, rng, 1000, equal)
        pools = {"FCN": made(wide, law(0.6, wide), equal), "VEC": made(wide, law(at, wide), equal)}
        curve = lambda n, worse: np.minimum(0.8 * (n / (20 * worse)) ** -0.4, 0.85)
        clean = curve(sizes, 1.0)
        small = {
            ("FCN", "I"): made(sizes, clean + 0.1 + max(gap, 0)),
            ("VEC", "I"): made(sizes, clean + gap),
            ("GAP", "I"): made(sizes, clean),
            ("GAP", "O(3)^d"): made(sizes, curve(sizes, shift)),
            ("GAP", "O(3d)"): made(sizes, curve(sizes, 2 * shift)),
        }
        changes = {a: np.full((5, 4), equal) for a in ARCHITECTURES}
        single = {a: best[a, "NTK"][..., None] + draws / 100 + np.zeros(2) for a in ARCHITECTURES}
        return SpuriousResults(best, best, share, changes, pools, small, None, single)

    SETTINGS = study.SpuriousSettings(
        **{**vars(study.PRESETS["desk"]), "models": ("FCN", "VEC"), "images": (12000, 12000), "small_pixels": 24}
    )

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(("change", "expected"), [
        ({}, [*["holds"] * 10, "fails", "holds"]),  # draws as good as means: ahead, and behind
        ({"fall": -3.0}, {0: "fails"}), ({"by_model": -3.0, "networks": 0.0}, {1: "fails"}),
        ({"shift": 0.25}, {2: "fails"}), ({"gap": -0.1}, {3: "fails"}), ({"at": 0.7}, {4: "fails"}),
        ({"networks": -5.0}, {5: "fails", 6: "fails"}),
        ({"networks": -5.0, "draws": -20.0}, {6: "fails"}),  # the mean leads, one network does not
        ({"learnt": 0.9}, {5: "undecided", 6: "undecided"}), ({"equal": 1e-3}, {7: "fails"}),
        ({"equal": math.nan}, {7: "undecided"}), ({"apart": 0.01}, {8: "fails"}),
        ({"draws": -20.0}, {9: "fails"}), ({"draws": 20.0}, {10: "holds"}),
    ])  # fmt: skip
    def test_a_claim_follows_its_numbers(self, change, expected):
        follow(claims(self.SETTINGS, self.results(**change)), expected)

    def test_with_8_pixels_a_side_lap8_is_gap_and_is_not_counted_twice(self):
        assert "LAP8" not in study.architectures_of(study.SpuriousSettings(pixels=8))
        assert study.architectures_of(study.SpuriousSettings(pixels=16)) == ARCHITECTURES


def test_every_repetition_has_images_of_its_own():
    asked = study.SpuriousSettings(data="textures", train_images=20, test_images=10)
    found = repeated_images(asked, None, asked.repetitions)
    assert len(found) == study.PRESETS["quick"].repetitions
    assert not np.array_equal(found[0].train_x, found[1].train_x)
