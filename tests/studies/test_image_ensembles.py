"""Ensembles of images, and beside what theory expects: scores literally, and verdicts on made numbers."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import actions, nn
from equitangents.actions import image_rotations
from equitangents_studies import predicted_agreement as agreement
from equitangents_studies.common.ensembles import EnsembleRecipe, answers, network, noise_floor_predictions, rotations
from equitangents_studies.common.orbits import orbit_batch, there_and_back
from equitangents_studies.common.scores import TrainedScores, disjoint_scores, powers_of_two
from equitangents_studies.continuous import ImageEnsembles, image_claims
from equitangents_studies.framework.progress import Task
from equitangents_studies.rotated_images import study as rotated_images
from equitangents_studies.rotated_images.study import differences, trained
from equitangents_studies.sampling import SamplingSettings as Sampling
from equitangents_studies.sampling import TrainedEnsembles, shown, titles, trained_claims, visits
from studies.miniatures import run
from studies.small import flat, follow

RECIPE = EnsembleRecipe(patch=2, channels=(4,), members=3, ensembles=10, batch=8, learning_rate=0.1)
SETS = ("test", "noise")


class TestAnswers:
    action = rotations(4)
    rng = np.random.default_rng(0)
    rotated, back = rng.normal(size=(2, 2, 6, 4 * 5, 3))  # epochs, networks, elements and inputs, classes
    found = answers(action, 2, rotated, back)

    def literal(self, e, r, y):
        """Outputs of the three members of an ensemble, (members, |G|, N, K)."""
        return y[e, 3 * r : 3 * r + 3].reshape(3, 4, 5, 3)

    def test_labels_are_those_of_the_mean_over_each_ensembles_own_members(self):
        for e, r in np.ndindex(2, 2):
            for key, y in (("labels", self.rotated), ("noise_floor", self.back)):
                expected = self.literal(e, r, y).mean(axis=0).argmax(axis=-1)
                np.testing.assert_array_equal(self.found[key][e, r], expected)

    def test_agreement_of_members_is_their_mean_and_not_that_of_the_mean(self):
        for e, r in np.ndindex(2, 2):
            labels = self.literal(e, r, self.rotated).argmax(axis=-1)
            expected = [np.mean([sum(m[g, n] == m[0, n] for g in range(4)) for m in labels]) for n in range(5)]
            np.testing.assert_allclose(self.found["members"][e, r], expected)

    def test_the_floor_compares_with_the_image_as_it_is(self):
        labels = np.array([[[0], [1], [2], [3]]])
        floor = np.array([[[0], [0], [2], [0]]])
        assert noise_floor_predictions(self.action, labels, floor).tolist() == [[3.0]]

    def test_there_and_back_is_the_image_where_the_action_is_exact_and_not_elsewhere(self):
        x = np.random.default_rng(0).normal(size=(2, 8, 8, 1))
        exact = there_and_back(image_rotations(4), x)
        np.testing.assert_array_equal(exact, np.tile(x, (4, 1, 1, 1)))
        off = there_and_back(rotations(8), x).reshape(8, 2, 8, 8, 1) - rotations(8)(0, x)
        errors = np.abs(off).max(axis=(1, 2, 3, 4))
        assert np.max(errors[::2]) < 1e-12
        assert np.min(errors[1::2]) > 1e-2


class TestWhatIsShown:
    settings = Sampling(image_order=8, image_budget=2, image_train=16, epochs=3)
    images = SimpleNamespace(train_x=np.random.default_rng(0).normal(size=(16, 4, 4, 1)), targets=np.eye(16))

    @pytest.mark.parametrize("budget", [1, 2, 4])
    def test_every_way_takes_equally_many_steps(self, budget):
        settings = Sampling(image_order=8, image_budget=budget, epochs=3)
        samples = {math.prod(visits(settings, way, 64)) for way in titles(8, budget)}
        assert samples == {3 * 8 * 64}

    def test_equally_spaced_elements_are_a_subgroup(self):
        chosen = shown(self.settings, "spaced", self.images, 0)["augmentation"]
        assert chosen.is_subgroup
        assert chosen.elements.tolist() == [0, 4]

    def test_random_elements_are_distinct_of_each_image_and_drawn_once_a_repetition(self):
        orbit = orbit_batch(rotations(8), self.images.train_x).reshape(8, 16, -1)
        drawn = [shown(self.settings, "drawn", self.images, r) for r in (0, 0, 1)]
        np.testing.assert_array_equal(drawn[0]["x"], drawn[1]["x"])
        assert not np.array_equal(drawn[0]["x"], drawn[2]["x"])
        found = {}
        for x, y in zip(drawn[0]["x"], drawn[0]["y"], strict=True):
            image = int(y.argmax())
            (element,) = np.flatnonzero((orbit[:, image] == x.ravel()).all(axis=1))
            found.setdefault(image, []).append(int(element))
        assert sorted(found) == list(range(16))
        assert all(len(set(elements)) == 2 == len(elements) for elements in found.values())
        assert len({tuple(sorted(elements)) for elements in found.values()}) > 1


def images_of(n=60):
    return SimpleNamespace(
        sets=dict.fromkeys(SETS), titles={"test": "digits", "noise": "noise"}, test_y=np.zeros(n, int),
        train_x=np.zeros((64, 8, 8, 1)),
    )  # fmt: skip


def wrong(rng, share, shape):
    """Class 1 at a share of the places, class 0 elsewhere and wherever the image is as it is."""
    labels = (rng.random(shape) < share).astype(np.int16)
    labels[..., 0, :] = 0
    return labels


def continuous_found(*, coarse=0.4, before=0.01, last=0.01, members=0.6, floor=0.02):
    """Shares of the angles at which C_2, C_4 and C_8 give another class."""
    rng, trained = np.random.default_rng(0), {}
    for k, share in {2: coarse, 4: before, 8: last}.items():
        trained[k] = {}
        for name in SETS:
            trained[k][f"labels_{name}"] = wrong(rng, share, (10, 8, 60))
            trained[k][f"noise_floor_{name}"] = wrong(rng, floor, (10, 8, 60))
            trained[k][f"members_{name}"] = 8 * (1 - members) + rng.normal(0, 0.1, (10, 60))
    return ImageEnsembles(images_of(), rotations(8), RECIPE, trained, 2)


def sampling_found(*, random=0.04, drawn=0.04):
    rng, action = np.random.default_rng(0), rotations(8)
    shares = {"complete": 0.04, "random": random, "spaced": 0.04, "drawn": drawn}
    found = {}
    for way, share in shares.items():
        found[way] = {}
        for name in SETS:
            found[way][f"labels_{name}"] = wrong(rng, share, (10, 8, 300))
            found[way][f"noise_floor_{name}"] = wrong(rng, 0.05, (10, 8, 300))
            found[way][f"members_{name}"] = np.full((10, 300), 6.0)
    return TrainedEnsembles(images_of(300), action, RECIPE, found, 4)


STUDIES = {
    "continuous": lambda **how: image_claims(continuous_found(**how)),
    "sampling": lambda **how: trained_claims(sampling_found(**how)),
}


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("continuous", {}, ["holds"] * 5), ("continuous", {"coarse": 0.01, "last": 0.2}, {0: "fails", 2: "fails"}),
    ("continuous", {"members": 0.01}, {1: "fails"}), ("continuous", {"last": 0.2}, {3: "fails"}),
    ("continuous", {"before": 0.2}, {4: "fails"}), ("sampling", {}, ["holds"] * 2),
    ("sampling", {"random": 0.0}, ["fails"] * 2), ("sampling", {"random": 0.2}, ["fails"] * 2),
    ("sampling", {"drawn": 0.2}, ["holds"] * 2),  # elements left out for good are no question of the source
    # these draws differ by 0.002 more than their shares, with a standard error of 0.001 over the repetitions
    ("sampling", {"random": 0.04 + 0.008 * 8 / 7}, {0: "undecided"}),
])  # fmt: skip
def test_claims_follow_their_numbers(name, change, expected):
    follow(STUDIES[name](**change), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stage", "figure"),
    [("continuous", "images-4", "agreement-over-angles"), ("sampling", "trained-random-1", "systematic-and-random")],
)
def test_training_on_images_that_is_cut_short_goes_on_to_the_same_numbers(
    name, stage, figure, finished_miniature, tmp_path, monkeypatch
):
    whole, step = finished_miniature(name), Task.step
    checkpoints = tmp_path / "cut" / "checkpoints" / stage

    def interrupting(self, done, steps):
        step(self, done, steps)
        if done < steps and any(checkpoints.rglob("*")):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Task, "step", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run(name, tmp_path / "cut")
    assert any(checkpoints.rglob("*"))
    resumed = run(name, tmp_path / "cut", resume=True)
    assert [claim.to_dict() for claim in resumed.claims] == [claim.to_dict() for claim in whole.claims]
    for path in ("results/claims.csv", f"results/{figure}.csv"):
        assert (resumed.folder / path).read_bytes() == (whole.folder / path).read_bytes()


def test_the_network_has_the_channels_of_the_recipe_and_an_output_for_each_class():
    net = network(EnsembleRecipe(patch=2, channels=(4, 6), members=3, ensembles=10, batch=8, learning_rate=0.1), 7)
    assert [layer.channels for layer in net.layers if isinstance(layer, nn.Conv | nn.Dense)] == [4, 6, 7]
    assert net.signals((8, 8, 1))[-1].channels == 7


class TestTrainedEnsembles:
    def test_every_member_is_in_one_ensemble(self):
        outputs = np.arange(7.0).reshape(7, 1, 1, 1)
        scores = disjoint_scores(outputs, 3, lambda groups: groups.mean(axis=1)[..., 0, 0])
        assert scores.tolist() == [1.0, 4.0]

    def test_the_share_in_the_range_and_the_difference(self):
        found = TrainedScores(np.array([1.0, 2.0, 3.0, 4.0, 2.0]), 2.5, 1.5, 3.5)
        e = found.difference((1.0, 4.0))
        assert e.value == pytest.approx(-0.1)
        assert e.low < -0.1 < e.high

    @pytest.mark.parametrize(("scores", "expected", "ends"), [
        (np.array([2.0]), (2.5, 2.2, 2.7), (-0.7, -0.2)), (np.full(4, 2.0), (2.5, 2.2, 2.7), (-0.6, -0.35)),
        (np.full(25, 4.0), (3.95, 3.9, 4.0), (0.04, 0.06)),
    ], ids=["one", "four", "all alike"])  # fmt: skip
    def test_of_few_or_equal_ensembles_the_interval_is_that_of_the_expected_spread(self, scores, expected, ends):
        e = TrainedScores(scores, *expected).difference((1.0, 4.0))
        assert (e.low, e.high) == pytest.approx(ends)

    def test_sizes_are_powers_of_two_and_all(self):
        assert powers_of_two(12) == [1, 2, 4, 8, 12]
        assert powers_of_two(1) == [1]


def outputs_that_agree(share, members, n, rng):
    """(members, 4, n, 2): each turn of an input has the class of the input as it is with probability `share`."""
    same = rng.random((members, 4, n)) < share
    same[:, 0] = True
    return np.stack([same, ~same], axis=-1).astype(np.float32)


class TestClaimOverMembers:
    settings = rotated_images.RotatedSettings(members=40, train_images=20, test_images=60, foreign_images=60)

    def _results(self, shift):
        rng, sizes = np.random.default_rng(0), powers_of_two(40)
        images = rotated_images.load_images(self.settings, None)
        outputs = {name: outputs_that_agree(0.7, 40, 60, rng) for name in images.sets}
        labels = {name: np.stack([y.argmax(axis=-1)] * 2) for name, y in outputs.items()}
        mean = {name: y[:, 0] for name, y in labels.items()}
        found = rotated_images.RotatedResults(images, np.array([0, 1]), labels, mean, {}, outputs)
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
    settings = agreement.AgreementSettings(widths=(4, 16, 64), members=64, steps=(5,))

    def _results(self, shares, expected=0.8):
        """Networks of each width whose turns keep the class with probability `shares`; theory expects `expected`."""
        rng, sizes = np.random.default_rng(0), powers_of_two(64)
        action = actions.image_rotations(4)
        images = SimpleNamespace(sets={"test": None, "noise": None}, titles={"test": "tests", "noise": "noise"})
        of = lambda share: {name: outputs_that_agree(share, 64, 50, rng)[None] for name in images.sets}
        outputs = {width: of(share) for width, share in zip(self.settings.widths, shares, strict=True)}
        zero = {name: np.zeros((1, len(sizes), 3)) for name in images.sets}
        ideal = agreement.AgreementResults(images, action, (5,), tuple(sizes), flat({1: of(expected)}), zero)
        predicted = {
            name: np.array([[ideal.trained(1, name, 5, m).scores.mean() for m in sizes]])[..., None]
            + np.array([0.0, -0.05, 0.05])
            for name in images.sets
        }
        return agreement.AgreementResults(images, action, (5,), tuple(sizes), flat(outputs), predicted)

    @pytest.mark.parametrize(("shares", "expected"), [
        ((0.6, 0.7, 0.78), {0: "holds"}), ((0.75, 0.7, 0.6), ["fails"] * 4), ((0.4, 0.7, 0.775), {2: "holds"}),
        ((0.4, 0.6, 0.7), {2: "fails"}), ((0.8, 0.8, 0.8), {0: "undecided", 2: "undecided"}),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, shares, expected):
        found = agreement.claims(self.settings, self._results(shares))
        follow(found, expected)
        assert (found[2].kind, found[2].stated) == ("ours", "−1")

    def test_a_difference_that_halves_with_four_times_the_width_has_exponent_minus_one_half(self):
        e = self._results((0.4, 0.6, 0.7)).exponent("test", 5)
        assert e.low < -0.5 < e.high
        assert e.value == pytest.approx(-0.5, abs=0.05)
