"""Claims of four studies, on numbers made for the purpose: true ones hold and false ones fail."""

import dataclasses

import numpy as np
import pytest

from equitangents_studies import ising, kernel_convergence, toy
from equitangents_studies.common.orbits import relative_std
from equitangents_studies.ising import claims as ising_claims
from equitangents_studies.rotated_images import study as rotated_images
from studies.small import outcomes


class TestToyClaims:
    """On numbers made for the purpose: Gaussian deviations with and without a common part."""

    settings = toy.Settings(members=200, steps=(0, 5), orbit_points=30)

    def _results(self, *, common=0.0, spread=1.0, infinite=0.0, control=1.0, members=200):
        rng = np.random.default_rng(0)
        pattern = common * rng.normal(size=(1, 1, 4, 30))
        orbits = tuple(spread * rng.normal(size=(2, 200, 4, 30))[:, :members] + pattern for _ in range(2))
        exact, plain = np.zeros((2, 2, 4, 30))
        exact[1, 2, 3] = infinite
        plain[1, 2, 3] = control
        return toy.Results(
            times=np.array([0, 5]), train_x=np.zeros((1, 2)), truth=np.zeros((1, 1)), scale=1.0,
            augmented=toy.Trained(orbits, (exact, exact), maps={}),
            plain_orbits=(plain, plain),
        )  # fmt: skip

    def test_true(self):
        assert outcomes(toy.claims(self.settings, self._results())) == ["holds"] * 5

    def test_violations_are_differences_from_the_input_as_it_is(self):
        trained = self._results().augmented
        found = toy.violations(trained, 1)
        assert found.shape == (2, 200, 3, 30)
        for g in range(1, 4):
            assert np.array_equal(found[:, :, g - 1], trained.orbits[1][:, :, g] - trained.orbits[1][:, :, 0])

    def test_a_mean_that_changes_as_its_members_do_fails(self):
        verdict = toy.claims(self.settings, self._results(common=3.0))[4]
        assert verdict.outcome == "fails"
        assert verdict.number > 0.9

    def test_a_mean_of_a_tenth_changes_as_the_law_of_independent_members_has_it(self):
        verdict = toy.claims(self.settings, self._results())[4]
        assert verdict.interval[0] < 20**-0.5 < verdict.interval[1]
        assert "1/√20 = 0.224" in verdict.measure

    @pytest.mark.parametrize(
        ("change", "failing"),
        [({"spread": 1e-4}, 0), ({"common": 0.5}, 1), ({"infinite": 1e-5}, 2), ({"control": 1e-3}, 3)],
    )
    def test_false(self, change, failing):
        assert outcomes(toy.claims(self.settings, self._results(**change)))[failing] == "fails"

    def test_few_members_decide_nothing(self):
        settings = dataclasses.replace(self.settings, members=4)
        assert outcomes(toy.claims(settings, self._results(members=4)))[1] == "undecided"


class TestIsingClaims:
    settings = ising.Settings(members=120, widths=(8, 64), groups=(1, 2, 4), steps=(0, 1, 2), test_spins=6)

    def _results(self, *, distances=(1.0, 0.0), spread=1.0):
        """Members with mean `distances` away from the closed form, by width, and `spread` times its spread."""
        rng = np.random.default_rng(0)
        mean = rng.normal(size=(1, 1, 6)) * np.ones((3, 4, 6))
        members = {}
        for width, distance in zip(self.settings.widths, distances, strict=True):
            noise = 0.3 * spread * rng.normal(size=(3, 120, 4, 6))
            members |= {(width, name): mean[:, None] + noise + distance for name in ising.SETS}
        fluctuation = 0.3 * rng.normal(size=(400, 4, 6))
        predicted = [relative_std(mean[0] + fluctuation / np.sqrt(m)) for m in self.settings.groups]
        each = lambda value: dict.fromkeys(ising.SETS, value)
        return ising.Results(
            times=np.array([0, 1, 2]), mean=each(mean), members=members,
            predicted=each(np.broadcast_to(predicted, (3, 3, 400))),
            curve={},
        )  # fmt: skip

    def test_true(self):
        claims = ising_claims(self.settings, self._results())
        assert outcomes(claims)[:4] == ["holds"] * 4
        assert [v.kind for v in claims] == ["source"] * 4 + ["ours"]

    def test_a_mean_that_stays_away_fails(self):
        assert outcomes(ising_claims(self.settings, self._results(distances=(1.0, 1.0))))[:2] == ["fails"] * 2

    def test_a_spread_that_is_too_large_fails(self):
        claims = ising_claims(self.settings, self._results(spread=3.0))
        assert claims[2].outcome == "fails"
        assert 1.5 < claims[2].number < 3

    def test_a_spread_that_all_members_share_does_not_average_out(self):
        results = self._results()
        shared = np.random.default_rng(1).normal(size=(3, 1, 4, 6))
        results.members.update({(64, name): results.members[64, name] + shared for name in ising.SETS})
        assert ising_claims(self.settings, results)[3].outcome == "fails"

    def test_the_exponent_of_the_distance_is_tested_against_theory(self):
        far = lambda power: tuple(30 * np.array(self.settings.widths, float) ** power)
        for power, verdict in ((-1.0, "holds"), (-0.6, "fails")):
            rate = ising_claims(self.settings, self._results(distances=far(power)))[4]
            assert rate.outcome == verdict
            assert rate.interval[0] < power < rate.interval[1]

    def test_equal_distances_within_noise_decide_nothing(self):
        claims = ising_claims(self.settings, self._results(distances=(0.0, 0.0)))
        assert claims[0].outcome == "undecided"
        assert claims[4].outcome == "undecided"


class TestRotatedImagesClaims:
    def _results(self, settings, *, mean_errors=0, infinite_errors=0):
        """Members err on random quarter of the orbit; the mean and the closed form on as many inputs as told."""
        rng = np.random.default_rng(0)
        images = rotated_images.load_images(settings, None)
        members, mean, infinite = {}, {}, {}
        for name, x in images.sets.items():
            base = rng.integers(0, 10, len(x))
            labels = np.broadcast_to(base, (2, settings.members, 4, len(x)))
            members[name] = np.where(rng.random(labels.shape) < 0.25, (labels + 1) % 10, labels)
            mean[name] = np.array(labels[:, 0])
            mean[name][0] = members[name][0, 0]  # untrained, it is like one of them
            mean[name][1, 1:, :mean_errors] += 1
            infinite[name] = np.array(labels[:, 0])
            infinite[name][1, 1:, :infinite_errors] += 1
        changes = {name: np.where(y != y[:, :1], 1.0, 0.0).max(axis=(1, 2)) for name, y in infinite.items()}
        leads = {name: np.ones(2) for name in infinite}
        return rotated_images.Results(
            images, np.array([0, 1]), members, mean, infinite, {}, deviation=changes, margin=leads
        )

    settings = rotated_images.Settings(members=12, train_images=20, test_images=60, foreign_images=60)

    def _judged(self, results, part):
        (found,) = [c for c in rotated_images.claims(self.settings, results) if part in c.statement]
        return found

    def test_true(self):
        judged = rotated_images.claims(self.settings, self._results(self.settings))
        assert outcomes(judged) == ["holds"] * 4
        assert [c.kind for c in judged] == ["source", "source", "ours", "check"]

    def test_an_untrained_mean_unlike_its_members_fails_the_check_alone(self):
        results = self._results(self.settings)
        for name in results.mean:
            results.mean[name][0, 1:] += 1
        verdicts = rotated_images.claims(self.settings, results)
        assert outcomes(verdicts) == ["holds", "holds", "holds", "fails"]

    def test_an_ensemble_behind_its_members_fails(self):
        results = self._results(self.settings, mean_errors=50)
        for part in ("than its members do", "best of its 12 members"):
            assert self._judged(results, part).outcome == "fails"

    def test_a_mean_ahead_of_its_members_but_not_of_the_best_fails_our_question_alone(self):
        results = self._results(self.settings, mean_errors=2)
        for labels in results.members.values():
            labels[1, 0] = labels[1, 0, 0]  # one member that no turn changes
        assert self._judged(results, "than its members do").outcome == "holds"
        assert self._judged(results, "best of its 12 members").outcome != "holds"

    def test_the_verdict_is_on_the_mean_over_sets_and_the_least_favourable_one_is_named(self):
        results = self._results(self.settings)
        results.mean["noise"][1, 1:, :50] += 1
        found = self._judged(results, "than its members do")
        assert found.numbers["noise after epoch 1"].high < 0
        assert found.number == pytest.approx(np.mean([e.value for e in found.numbers.values()]))

    def test_one_input_is_enough_to_fail_exactness(self):
        verdict = self._judged(self._results(self.settings, infinite_errors=1), "At infinite width")
        assert verdict.outcome == "fails"
        assert verdict.number == 1.0

    @pytest.mark.parametrize(("moved", "verdict"), [(1e-14, "holds"), (1e-8, "fails"), (np.nan, "undecided")])
    def test_infinite_width_that_moves_fails_and_nan_decides_nothing(self, moved, verdict):
        results = self._results(self.settings)
        of = lambda last: {name: np.array([0.0, last]) for name in results.mean}
        found = self._judged(dataclasses.replace(results, deviation=of(moved), margin=of(0.02)), "At infinite width")
        assert found.outcome == verdict
        assert "leads the second by 0.0200 at least" in found.measure

    def test_changes_and_leads_are_relative_to_the_size_of_outputs_and_0_before_training(self):
        outputs = np.zeros((2, 4, 1, 3))  # (times, |G|, inputs, classes)
        outputs[1] = [[3.0, 1.0, 2.0]]
        outputs[1, 2] = [[3.0, 1.0, 2.5]]
        moved, least = rotated_images.margins(outputs)
        size = np.sqrt((outputs[1] ** 2).mean())
        assert (moved[0], least[0]) == (0, 0)
        assert (moved[1], least[1]) == pytest.approx((0.5 / size, 0.5 / size))

    def test_without_the_closed_form_there_is_no_claim_about_it(self):
        results = dataclasses.replace(self._results(self.settings), infinite={})
        assert not any("infinite" in v.statement for v in rotated_images.claims(self.settings, results))


class TestKernelConvergenceClaims:
    settings = kernel_convergence.Settings(widths=(4, 16, 64), batches=40)

    def _results(self, *, rate=-0.5, off=0.0):
        """Means of batches that scatter as a power of the width, and lie `off` standard errors from the closed form."""
        rng = np.random.default_rng(0)
        exact, sizes = 1 + np.eye(3), 0.1 * np.array(self.settings.widths) ** rate
        noise = sizes[:, None, None, None] * rng.normal(size=(3, 40, 3, 3))
        errors = noise.std(axis=1, ddof=1) / 40**0.5
        means = exact + noise + off * errors[:, None]
        each = lambda value: {(s, k): value for s in kernel_convergence.SPACES for k in kernel_convergence.KINDS}
        return kernel_convergence.Results(each(exact), each(means), each(errors))

    def test_true(self):
        assert outcomes(kernel_convergence.claims(self.settings, self._results())) == ["holds"] * 3

    def test_a_slow_or_a_fast_approach_fails(self):
        for rate in (-0.05, -1.0):
            assert outcomes(kernel_convergence.claims(self.settings, self._results(rate=rate)))[1] == "fails"
        assert outcomes(kernel_convergence.claims(self.settings, self._results(rate=0.3)))[0] == "fails"

    def test_a_mean_that_is_five_standard_errors_away_fails(self):
        assert outcomes(kernel_convergence.claims(self.settings, self._results(off=5.0)))[2] == "fails"

    def test_what_falls_as_one_over_the_width_is_not_in_the_limit(self):
        results = self._results()
        n = np.array(self.settings.widths, float)[:, None, None, None]
        biased = dataclasses.replace(results, means={key: m + 3 / n for key, m in results.means.items()})
        for key in results.exact:
            one, other = (kernel_convergence.limits(self.settings, r, *key) for r in (results, biased))
            np.testing.assert_allclose(one, other, rtol=1e-12)
