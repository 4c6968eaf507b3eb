"""Trained ensembles beside what theory expects: the numbers, and claims that fail where they should."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import actions
from equitangents_studies import predicted_agreement as agreement
from equitangents_studies.common.scores import Trained, disjoint_scores, powers_of_two
from equitangents_studies.rotated_images import study as rotated_images
from equitangents_studies.rotated_images.study import differences, trained
from studies.small import flat


class TestTrainedEnsembles:
    def test_every_member_is_in_one_ensemble(self):
        outputs = np.arange(7.0).reshape(7, 1, 1, 1)
        scores = disjoint_scores(outputs, 3, lambda groups: groups.mean(axis=1)[..., 0, 0])
        assert scores.tolist() == [1.0, 4.0]

    def test_the_share_in_the_range_and_the_difference(self):
        found = Trained(np.array([1.0, 2.0, 3.0, 4.0, 2.0]), 2.5, 1.5, 3.5)
        assert found.inside == 0.6
        e = found.difference((1.0, 4.0))
        assert e.value == pytest.approx(-0.1)
        assert e.low < -0.1 < e.high

    def test_of_few_ensembles_the_interval_is_that_of_the_expected_spread(self):
        e = Trained(np.array([2.0]), 2.5, 2.2, 2.7).difference((1.0, 4.0))
        assert (e.low, e.high) == pytest.approx((-0.7, -0.2))
        four = Trained(np.full(4, 2.0), 2.5, 2.2, 2.7).difference((1.0, 4.0))
        assert (four.low, four.high) == pytest.approx((-0.6, -0.35))

    def test_ensembles_that_all_score_alike_have_the_expected_spread_too(self):
        e = Trained(np.full(25, 4.0), 3.95, 3.9, 4.0).difference((1.0, 4.0))
        assert (e.low, e.high) == pytest.approx((0.04, 0.06))

    def test_sizes_are_powers_of_two_and_all(self):
        assert powers_of_two(12) == [1, 2, 4, 8, 12]
        assert powers_of_two(1) == [1]


def outputs_that_agree(share, members, n, rng):
    """(members, 4, n, 2): each turn of an input has the class of the input as it is with probability `share`."""
    same = rng.random((members, 4, n)) < share
    same[:, 0] = True
    return np.stack([same, ~same], axis=-1).astype(np.float32)


class TestClaimOverMembers:
    settings = rotated_images.Settings(members=40, train_images=20, test_images=60, foreign_images=60)

    def _results(self, shift):
        rng, sizes = np.random.default_rng(0), powers_of_two(40)
        images = rotated_images.load_images(self.settings, None)
        outputs = {name: outputs_that_agree(0.7, 40, 60, rng) for name in images.sets}
        labels = {name: np.stack([y.argmax(axis=-1)] * 2) for name, y in outputs.items()}
        mean = {name: y[:, 0] for name, y in labels.items()}
        found = rotated_images.Results(images, np.array([0, 1]), labels, mean, {}, outputs)
        zero = {name: np.zeros((len(sizes), 3)) for name in outputs}
        predicted = {}
        for name in outputs:
            blank = dataclasses.replace(found, predicted=zero)
            of = [trained(self.settings, blank, name, m).scores.mean() + shift for m in sizes]
            predicted[name] = np.array(of)[:, None] + np.array([0.0, -0.02, 0.02])
        return dataclasses.replace(found, predicted=predicted)

    @pytest.mark.parametrize(("shift", "verdict"), [(0.0, "holds"), (0.5, "fails"), (np.nan, "undecided")])
    def test_ensembles_off_the_prediction_fail_and_nan_decides_nothing(self, shift, verdict):
        claims = rotated_images.claims(self.settings, self._results(shift))
        (found,) = [c for c in claims if "of every size" in c.statement]
        assert (found.outcome, found.kind) == (verdict, "ours")

    def test_every_size_and_every_set_is_judged(self):
        assert len(differences(self.settings, self._results(0.0)).rows) == 7 * 3

    @pytest.mark.parametrize(("share", "verdict"), [(0.4, "holds"), (0.75, "fails"), (0.95, "holds")])
    def test_networks_that_are_nearer_to_theory_than_narrower_ones_approach_it(self, share, verdict):
        """Those of this width agree with probability 0.7; theory expects 0.15 rotations more."""
        rng, settings = np.random.default_rng(1), dataclasses.replace(self.settings, narrow=(4, 8))
        results = self._results(0.15)
        narrow = {name: outputs_that_agree(share, 40, 60, rng).argmax(axis=-1) for name in results.mean}
        claims = rotated_images.claims(settings, dataclasses.replace(results, narrow=narrow))
        (found,) = [c for c in claims if "The wider" in c.statement]
        assert (found.outcome, found.kind) == (verdict, "source")


class TestClaimsOverWidth:
    settings = agreement.Settings(widths=(4, 16, 64), members=64, steps=(5,))

    def _results(self, shares, expected=0.8):
        """Networks of each width whose turns keep the class with probability `shares`; theory expects `expected`."""
        rng, sizes = np.random.default_rng(0), powers_of_two(64)
        action = actions.image_rotations(4)
        images = SimpleNamespace(sets={"test": None, "noise": None}, titles={"test": "tests", "noise": "noise"})
        of = lambda share: {name: outputs_that_agree(share, 64, 50, rng)[None] for name in images.sets}
        outputs = {width: of(share) for width, share in zip(self.settings.widths, shares, strict=True)}
        zero = {name: np.zeros((1, len(sizes), 3)) for name in images.sets}
        ideal = agreement.Results(images, action, (5,), tuple(sizes), flat({1: of(expected)}), zero)
        predicted = {
            name: np.array([[ideal.trained(1, name, 5, m).scores.mean() for m in sizes]])[..., None]
            + np.array([0.0, -0.05, 0.05])
            for name in images.sets
        }
        return agreement.Results(images, action, (5,), tuple(sizes), flat(outputs), predicted)

    def _verdicts(self, shares):
        return [c.outcome for c in agreement.claims(self.settings, self._results(shares))]

    def test_networks_that_approach_theory_hold(self):
        assert self._verdicts((0.6, 0.7, 0.78))[0] == "holds"

    def test_networks_that_move_away_fail(self):
        assert self._verdicts((0.75, 0.7, 0.6)) == ["fails"] * 4

    @pytest.mark.parametrize(
        ("shares", "verdict"),
        [
            ((0.4, 0.7, 0.775), "holds"),
            ((0.4, 0.6, 0.7), "fails"),
            ((0.8, 0.8, 0.8), "undecided"),
        ],
    )
    def test_the_order_of_theory_is_tested_against_minus_one(self, shares, verdict):
        found = agreement.claims(self.settings, self._results(shares))[2]
        assert (found.outcome, found.kind, found.stated) == (verdict, "ours", "−1")

    def test_a_difference_that_halves_with_four_times_the_width_has_exponent_minus_one_half(self):
        e = self._results((0.4, 0.6, 0.7)).exponent("test", 5)
        assert e.low < -0.5 < e.high
        assert e.value == pytest.approx(-0.5, abs=0.05)

    def test_at_the_expected_agreement_no_exponent_is_made_up(self):
        assert self._verdicts((0.8, 0.8, 0.8))[0] == "undecided"
