"""Claims of learning curves and spectra follow from the numbers, made up here."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents.statistics import Estimate
from equitangents_studies import spectra
from equitangents_studies.learning_curves import page
from equitangents_studies.learning_curves import settings as settings_of
from studies.small import follow


def noisy(mean, count=6, spread=0.01, seed=0):
    """Rows of `count` repetitions about each mean."""
    mean = np.asarray(mean, float)
    return mean[:, None] * np.exp(spread * np.random.default_rng(seed).normal(size=(len(mean), count)))


class TestLearningCurves:
    SETTINGS = dataclasses.replace(
        settings_of.CurveSettings(),
        data="cifar10",
        pixels=32,
        models=("FCN", "VEC"),
        predicted_sizes=(200, 400),
        draws=200,
    )
    SIZES = np.geomspace(20, 3200, 12).astype(int)

    def results(self, beyond=0.2, rotated=1.0, missed=0, **changed):
        """Errors with the exponent 0.2, from 300 images on `beyond`; VEC `rotated` times as many on rotated ones."""
        n = self.SIZES
        growing = np.where(n < 300, n**-0.2, 300 ** (beyond - 0.2) * n**-beyond)
        error = {"FCN": noisy(growing), "VEC": noisy(0.9 * growing)}
        both = {(m, g): error[m] for m in error for g in settings_of.GROUPS}
        measured = {"digits": noisy([0.3, 0.2], 12), "mnist": noisy([0.5, 0.4], 12)}
        exact = {name: rows.mean(axis=1) for name, rows in measured.items()}
        recovered = np.ones((200, 3), bool)
        recovered[:missed, 1] = False
        filled = {
            "source": "cifar10", "sizes": dict.fromkeys(error, n), "classification": both,
            "squared": {**both, ("VEC", "O(3)^d"): rotated * error["VEC"]}, "networks": {}, "measured": measured,
            "omniscient": exact, "inputs": exact, "recovered": recovered, "whole": {}, "exact_right": {},
            **{f"feature_{what}": {} for what in ("right", "ridge", "validation")},
        }  # fmt: skip
        return settings_of.CurveResults(**{**filled, **changed})

    def claims(self, **changed):
        return page.claims(self.SETTINGS, self.results(**changed))

    @pytest.mark.parametrize(("change", "expected"), [
        ({}, ["holds"] * 7), ({"rotated": 1.1}, {0: "fails"}), ({"beyond": 0.5}, {2: "fails", 3: "fails"}),
        ({"missed": 11}, {6: "fails"}),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, change, expected):
        found = self.claims(**change)
        follow(found, expected)
        assert [c.kind for c in found] == ["source"] * 4 + ["ours"] * 2 + ["check"]
        assert "VEC classifies more accurately" in found[1].statement

    def test_features_are_judged_where_the_exact_kernel_stands_beside_them(self):
        settings = dataclasses.replace(self.SETTINGS, approximated=("GAP",), exact_features=(64,), whole_images=400)
        more, less = np.arange(400) < 240, np.arange(400) < 160

        def judge(*right):
            found = self.results(exact_right={"GAP": np.array(right)}, feature_right={"GAP": more[None]})
            return [c for c in page.claims(settings, found) if "andom features" in c.statement]

        lost, reached = judge(more, less)
        assert (lost.kind, lost.outcome, reached.kind) == ("ours", "fails", "ours")
        assert (lost.number, reached.number) == (-20, 60)
        assert "77 % of the exact kernel" in reached.stated
        assert judge(less, more)[0].outcome == "holds"

    def test_the_source_s_number_is_compared_without_flips_and_with_the_chance_of_other_images(self):
        desk = {"whole_images": 45_000, "flips": False, "whole_ridge": 0.01}
        settings = dataclasses.replace(self.SETTINGS, whole=("FCN", "VEC"), **desk)
        keys = [(k, p) for k in ("ntk", "nngp") for p in ("validation", "test")]
        right = lambda share: np.random.default_rng(0).random(10_000) < share
        made = lambda vec: {(m, "", *key): right(vec if m == "VEC" else 0.58) for m in ("FCN", "VEC") for key in keys}
        judge = lambda vec: page.claims(settings, self.results(whole=made(vec)))
        assert judge(0.67)[0].kind == "ours"
        assert judge(0.62)[1].outcome == "fails"
        small = dataclasses.replace(settings, whole_images=450)
        assert page.claims(small, self.results(whole=made(0.62)))[1].kind == "ours"
        whole = {("VEC", "", *key): np.arange(10_000) < 6620 for key in keys}
        whole |= {("VEC", "-flips", *key): np.arange(10_000) < 6800 for key in keys}
        settings = dataclasses.replace(settings, whole=("VEC",), flips=True)
        found = page.claims(settings, self.results(whole=whole))[0]
        assert (found.kind, found.stated, found.number) == ("ours", "67 % without flips", 66.2)

    def test_networks_that_pool_stand_beside_those_that_do_not_on_the_same_images(self):
        desk = {"whole_images": 10_000, "whole_tested": 1000, "flips": False}
        settings = dataclasses.replace(self.SETTINGS, whole=("FCN", "VEC", "LAP4"), **desk)
        right = lambda **n: {(m, "", k, "test"): np.arange(1000) < n[m] for m in n for k in ("ntk", "nngp")}
        judge = lambda s, r: [c for c in page.claims(s, r) if "fewer symmetries" in c.statement]
        found = self.results(whole=right(FCN=470, VEC=550, LAP4=600))
        *_, claim = judge(settings, found)
        assert (claim.kind, claim.outcome) == ("source", "holds")
        assert claim.statement.endswith("FCN < VEC < LAP4")
        assert {label: e.value for label, e in claim.numbers.items()} == {"VEC over FCN": 8, "LAP4 over VEC": 5}
        assert page._whole(settings, found).header == ["", "test"]
        worse = self.results(whole=right(FCN=470, VEC=550, LAP4=500))
        assert [c.outcome for c in judge(settings, worse)] == ["fails"]
        equal = {("LCN", *key[1:]): right for key, right in found.whole.items() if key[0] == "VEC"}
        both = self.results(whole={**found.whole, **equal})
        for whole, claimed in ((("LAP4", "VEC"), []), (("LCN", "VEC"), []), (("FCN", "LCN", "VEC"), ["FCN < VEC"])):
            said = [c.statement.partition(": ")[2] for c in judge(dataclasses.replace(settings, whole=whole), both)]
            assert said == claimed, "LCN is VEC at infinite width"

    def trained(self, vec, rotated, lcn):
        """Settings and results with networks whose exponents grow by so much past 640 images, four runs of each."""
        n = np.array(sizes := (80, 160, 320, 640, 1280, 2560), float)
        mean = lambda grows: np.where(n < 640, n**-0.05, 640**grows * n ** -(0.05 + grows))
        grown = {("VEC", "I"): vec, ("VEC", "O(3)^d"): rotated, ("LCN", "I"): lcn}
        errors = {key: noisy(mean(grows), 4, 0.003, i) for i, (key, grows) in enumerate(grown.items())}
        desk = {"networks": ("VEC", "LCN"), "network_sizes": sizes, "members": 4, "width": 32}
        settings = dataclasses.replace(self.SETTINGS, pixels=8, **desk)
        assert list(errors) == settings_of.trained_on(settings)
        return settings, self.results(networks=errors)

    @pytest.mark.parametrize(("grown", "verdicts"), [
        ((0.08, 0.0, 0.01), ["holds"] * 3), ((-0.08, 0.09, 0.0), ["fails"] * 3),
        ((0.003, 0.05, 0.0), ["undecided", "fails", "undecided"]),
        ((0.06, 0.055, 0.0), ["holds", "undecided", "undecided"]),
    ])  # fmt: skip
    def test_the_exponent_of_trained_networks_grows_or_not(self, grown, verdicts):
        mine = page.trained_claims(*self.trained(*grown))
        follow(mine, verdicts)
        assert [c.kind for c in mine] == ["source"] * 3
        assert list(mine[1].numbers) == list(mine[2].numbers) == ["VEC on rotated images", "LCN"]
        assert mine[0].number == pytest.approx(grown[0], abs=0.01)

    def test_curves_and_the_whole_learn_images_that_are_prepared_so(self):
        plain = dataclasses.replace(settings_of.CurveSettings(), data="textures", whole_images=40, whole_tested=9)
        norm = dataclasses.replace(plain, prepared="norm")
        size = lambda images: np.sqrt((images**2).mean(axis=(1, 2, 3)))
        shift = lambda images: np.abs(images.mean(axis=(1, 2, 3))).max()
        one, other = (settings_of.whole_images(s, None) for s in (plain, norm))
        np.testing.assert_allclose(size(other.test_x), 1, rtol=1e-5)
        assert shift(one.train_x) < 1e-5 < 1e-2 < shift(other.train_x)

    @pytest.mark.parametrize(("factor", "verdict"), [(0.85, "fails"), (0.96, "holds"), (1.2, "fails")])
    def test_predictions_are_judged_by_ten_percent(self, factor, verdict):
        exact = self.results().omniscient
        found = self.claims(omniscient={**exact, "mnist": factor * exact["mnist"]})
        follow(found, {4: verdict, 5: "holds"})
        without = self.claims(measured={}, omniscient={}, inputs={})
        assert not any("predicts" in c.statement for c in without)

    def test_curves_without_errors_are_fitted_by_squared_ones(self):
        good = self.results()
        zero = {key: np.where(np.arange(12)[:, None] > 9, 0, rows) for key, rows in good.classification.items()}
        laws = self.results(classification=zero).laws
        assert laws["FCN", "I"].exponent.value == pytest.approx(good.laws["FCN", "I"].exponent.value)


class TestSpectra:
    def case(self, right=3.0, wrong=0.9, expected=3.1, explicit=1e-15):
        around = lambda value: Estimate(value, 0.95 * value, 1.05 * value)
        rows = dict.fromkeys(("plain", "right", "subgroup", "wrong"), np.ones((6, 10)))
        return spectra.Case(
            curves=rows,
            predicted=dict.fromkeys(rows, np.ones(6)),
            measured={"right": around(right), "subgroup": around(1.6), "wrong": around(wrong)},
            expected={"right": around(expected), "subgroup": around(1.6), "wrong": around(0.9)},
            condition=(100.0, 50.0),
            explicit=explicit,
        )

    @pytest.mark.parametrize(("change", "expected"), [
        ({}, ["holds"] * 5), ({"right": 0.8, "expected": 0.8}, {0: "fails"}), ({"wrong": 1.3}, {1: "fails"}),
        ({"expected": 8.0}, {2: "fails"}), ({"explicit": 1e-3}, {4: "fails"}),
        ({"right": np.nan}, {0: "undecided", 2: "undecided"}),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, change, expected):
        results = spectra.SpectraResults({("digits", "C4"): self.case(**change)})
        follow(spectra.claims(spectra.SpectraSettings(), results), expected)

    def test_images_are_rotated_so_that_the_group_is_their_symmetry(self):
        settings = spectra.SpectraSettings(images=50, pixels=8)
        rotated, _ = spectra.load(settings, "digits", "C4", None)
        assert rotated.shape == (50, 8, 8, 1)
        with pytest.raises(InvalidArgumentError, match="sizes"):
            spectra.check_settings(dataclasses.replace(settings, sizes=(10, 45)), None)
