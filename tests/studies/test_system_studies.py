"""Studies of learning systems: claims of made-up numbers, widths, and infinite width literally."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import jax
import numpy as np
import pytest

from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import EquitangentsError
from equitangents_studies import gaussian_vs_uniform as laws
from equitangents_studies import symmetry_breaking_path as along
from equitangents_studies import symmetry_groups as groups
from equitangents_studies.common.system_runs import draw_accuracies, load_system_images, predicted
from equitangents_studies.finite_width_vec import GROUPS, INFERENCES, VecWidthResults, VecWidthSettings, _table, claims
from equitangents_studies.learning_curves.settings import (
    FEATURE_RIDGES,
    CurveSettings,
    feature_sizes,
    load,
    whole_images,
)
from equitangents_studies.learning_curves.study import against_exact, features, learnt, out_of_fold, slices, whole
from equitangents_studies.systems import architecture, transformation
from studies.small import follow, outcomes


class TestSymmetryGroups:
    settings = groups.GroupsSettings()

    def results(self, *, kernel=1e-7, change=0.3, coupled=1e-12, p=0.001, alarms=(0.05, 0.02, 0.09), embedded=1e-15):
        pairs = [(a, g) for a in groups.ARCHITECTURES for g in groups.GROUPS]
        equal = set(groups.entries(True, finite=False))
        alike = set(groups.entries(True, finite=True))
        rng = np.random.default_rng(0)
        right = lambda share: rng.random(2000) < share
        return groups.GroupsResults(
            {pair: kernel if pair in equal else 0.2 for pair in pairs},
            {pair: 1e-6 if pair in equal else change for pair in pairs},
            {pair: right(0.5) for pair in pairs},
            {pair: coupled if pair in alike else p for pair in pairs},
            np.array(alarms),
            dict.fromkeys(groups.CHAIN, embedded),
        )

    @pytest.mark.parametrize(("place", "change", "verdict"), [
        (0, {}, "holds"), *((i, {name: 1e-3}, "fails") for i, name in ((0, "embedded"), (1, "kernel"), (3, "coupled"))),
        *((i, {name: math.nan}, "undecided") for i, name in enumerate(("embedded", "kernel", "change", "coupled"))),
        (2, {"change": 1e-6}, "fails"), (4, {"p": 0.3}, "undecided"), (4, {"p": math.nan}, "undecided"),
        (5, {"alarms": (0.3, 0.2, 0.4)}, "fails"), (5, {"alarms": (0.1, 0.03, 0.2)}, "undecided"),
    ])  # fmt: skip
    def test_a_claim_follows_its_numbers(self, place, change, verdict):
        found = groups.claims(self.settings, self.results(**change))
        follow(found, [verdict if i == place else "holds" for i in range(6)])
        assert change or found[4].interval_cell == "a p-value, which has no interval"

    def test_theorem_4_1_has_so_many_entries(self):
        assert len(groups.entries(True, finite=False)) == 17
        assert len(groups.entries(True, finite=True)) == 16
        assert ("VEC", "O(3)^d") in groups.entries(True, finite=False)
        assert ("VEC", "O(3)^d") in groups.entries(False, finite=True)


class TestSymmetryBreakingPath:
    settings = along.PathSettings(times=(0.0, 1.0), widths=(4, 8), members=12)

    def results(self, to_gap, to_limit, noise=0.1, learnt=(1.0, 1.0)):
        """VEC at 0 between GAP and the limit, then moved along the line between them."""
        rng = np.random.default_rng(0)
        members = lambda mean: mean + noise * rng.standard_normal((12, 20, 2))
        times, widths = self.settings.times, self.settings.widths
        means = {times[0]: 0.0, times[1]: to_gap[1] - to_gap[0]}
        return along.PathResults(
            {(w, t): members(means[t]) for w in widths for t in times},
            {w: members(-to_gap[0]) for w in widths},
            {(w, t): np.full(12, share) for w, share in zip(widths, learnt, strict=True) for t in times},
            np.full((20, 2), to_limit[0]),
            np.arange(20) % 2,
        )

    def test_distances_along_the_path_decide(self):
        judged = lambda *ends: outcomes(along.claims(self.settings, self.results(*ends)))[:2]
        assert judged((0.5, 2.0), (2.0, 0.5)) == ["holds"] * 2
        assert judged((2.0, 0.5), (0.5, 2.0)) == ["fails"] * 2
        assert judged((1.0, 1.0), (1.0, 1.0)) == ["undecided"] * 2

    def test_widths_whose_networks_do_not_learn_do_not_count_and_are_told(self):
        results = self.results((0.5, 2.0), (2.0, 0.5), learnt=(0.5, 1.0))
        found = along.claims(self.settings, results)
        assert along.counted_widths(self.settings, results) == (8,)
        assert found[0].shown == "the mean over 8 channels"
        assert len(found[0].numbers) == 2

    def test_what_is_not_a_number_decides_nothing(self):
        results = self.results((0.5, 2.0), (2.0, 0.5))
        results.vec[4, 1.0][0, 0, 0] = np.nan
        with pytest.raises(EquitangentsError, match="NaN"):
            along.claims(self.settings, results)

    def test_the_distance_is_without_bias_and_its_interval_that_of_the_jackknife(self):
        rng = np.random.default_rng(1)
        a, b = (rng.standard_normal((12, 5, 3)) for _ in range(2))
        found = along.product(a, b)
        pairs = [(a[i] * b[j]).sum() / 5 for i in range(12) for j in range(12) if i != j]
        assert found.whole == pytest.approx(np.mean(pairs), rel=1e-12)
        fewer = along.product(np.delete(a, 3, axis=0), np.delete(b, 3, axis=0))
        assert found.without[3] == pytest.approx(fewer.whole, rel=1e-10)
        e = along.over_members(lambda p: 2 * p, found)
        pseudo = 12 * 2 * found.whole - 11 * 2 * found.without
        assert e.value == 2 * found.whole
        assert e.high - e.low == pytest.approx(2 * 2.200985 * pseudo.std(ddof=1) / np.sqrt(12), rel=1e-5)
        results = self.results((0.5, 2.0), (2.0, 0.5))
        assert results.distance("VEC", 4, 0.0).whole == pytest.approx(2 * 2.0**2, abs=0.5)


class TestGaussianVsUniform:
    settings = laws.UniformSettings()

    def results(self, *, equal=1e-12, change=0.1, permuted=0.0, lead=0.0, spread=0.003):
        rng = np.random.default_rng(0)
        keys = itertools.product(self.settings.networks, laws.LAWS, laws.GROUPS)
        scores = {key: 0.5 + lead * (key[1] == "gaussian") + spread * rng.normal(size=8) for key in keys}
        moved = np.array([0.0, permuted, change])[:, None] - 0.4 + np.zeros(5)
        return laws.UniformResults(scores, dict.fromkeys(laws.COUPLED, equal), {1: moved, 8: moved / 64})

    @pytest.mark.parametrize(("place", "change", "verdict"), [
        (0, {}, "holds"), (0, {"equal": 1e-3}, "fails"), (0, {"equal": math.nan}, "undecided"),
        (1, {"change": 0.0}, "fails"), (1, {"change": math.nan}, "undecided"), (2, {"lead": 0.1}, "fails"),
        (2, {"spread": 0.2}, "undecided"), (3, {"permuted": 0.1}, "fails"),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, place, change, verdict):
        expected = [verdict if i == place else "holds" for i in range(4)]
        follow(laws.claims(self.settings, self.results(**change)), expected)

    def test_the_closed_form_is_the_kurtosis_of_drawn_responses(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2, 1, 1, 3))
        w = rng.uniform(-math.sqrt(3), math.sqrt(3), size=(200_000, 3))
        b = rng.normal(size=(200_000, 1))
        h = laws.W_STD / math.sqrt(3) * w @ x.reshape(2, 3).T + laws.B_STD * b
        drawn = (h**4).mean(axis=0) / (h**2).mean(axis=0) ** 2 - 3
        assert np.max(np.abs(laws.excess_kurtosis(x) - drawn)) <= 0.03


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


WIDTHS = (16, 64, 128, 256)


VEC_SETTINGS = VecWidthSettings(widths=WIDTHS, runs=5, needed=4)


def made(*, fall=3.0, ahead=5.0, cost=6.0, behind=2.0, learnt=1.0, noise=0.2, narrow=4.0, draws=50.0, moved=0.0):
    """Runs with 60 % for the NTK and `draws` for one infinitely wide network; networks `ahead` up to 128 channels, and
    `fall` worse at 256; rotations `cost`, and change the NTK’s accuracy by `moved`. At the smallest width the `noise`
    of runs is `narrow` times as large.
    """
    rng = np.random.default_rng(0)
    curve = np.array([60 + ahead, 60 + ahead, 60 + ahead, 60 + ahead - fall])
    rotated = np.minimum(curve - cost, 60 - behind) if behind > 0 else curve - cost - behind
    best, spread = {}, np.array([[narrow], [1], [1], [1]])
    for how in INFERENCES:
        for group, level in zip(GROUPS, (curve, rotated), strict=True):
            best[how, group] = (level[:, None] + noise * spread * rng.normal(size=(4, 5))) / 100
    share = {key: np.full((4, 5), learnt) for key in best}
    wide = (60 + 0.1 * rng.normal(size=5)) / 100
    limit = {group: wide + k * moved / 100 for k, group in enumerate(GROUPS)}
    single = {group: (draws + 0.1 * rng.normal(size=(5, 3))) / 100 for group in GROUPS}
    return VecWidthResults(WIDTHS, 4, best, dict(best), share, limit, single)


@pytest.mark.parametrize(("change", "expected"), [
    ({}, ["holds"] * 9), ({"fall": -3.0}, {0: "fails", 1: "fails"}), ({"fall": 0.0}, {0: "undecided"}),
    ({"ahead": -5.0}, {2: "fails"}), ({"behind": -9.0}, {3: "fails"}), ({"moved": 2.0}, {4: "fails"}),
    ({"narrow": 1.0}, {5: "undecided"}), ({"narrow": 0.1}, {5: "fails"}), ({"draws": 90.0}, {6: "fails", 7: "fails"}),
    ({"cost": -6.0, "behind": -9.0}, {8: "fails"}),
    ({"learnt": 0.9}, dict.fromkeys((0, 1, 2, 3, 6, 7, 8), "undecided")),
])  # fmt: skip
def test_a_claim_follows_its_numbers(change, expected):
    found = claims(VEC_SETTINGS, made(**change))
    follow(found, expected)
    assert [claim.kind for claim in found] == ["source"] * 6 + ["ours"] * 2 + ["source"]


def test_the_table_has_a_row_for_every_way_to_train_and_two_at_infinite_width():
    found = _table(VEC_SETTINGS, made())
    ways = [f"{how}, {group}" for how in INFERENCES for group in GROUPS]
    assert [row[0] for row in found.rows] == [*ways, *(f"{one}, {g}" for g in GROUPS for one in ("NTK", "one draw"))]
    assert {len(row) for row in found.rows} == {len(found.header)}


def test_draws_are_compared_with_networks_at_the_end_and_the_mean_with_their_best():
    results = made()
    results.last["NN", "I"] = results.best["NN", "I"] - 0.04
    apart = results.ahead("NN", "I", 64, "draws").value - results.ahead("NN", "I", 64).value
    assert apart == pytest.approx(60 - 50 - 4, abs=0.5)


def test_widths_that_were_not_trained_decide_nothing_about_the_best_width():
    r, kept = made(), slice(0, 2)
    best, last, learnt = ({key: rows[kept] for key, rows in arrays.items()} for arrays in (r.best, r.last, r.learnt))
    few = VecWidthResults(WIDTHS[kept], 4, best, last, learnt, r.limit, r.draws)
    follow(claims(VecWidthSettings(widths=WIDTHS[kept], runs=5, needed=4), few), {0: "undecided", 1: "undecided"})


def test_runs_that_do_not_reach_95_percent_do_not_count():
    results = made()
    results.learnt["NN", "I"][1] = [1.0, 1.0, 0.95, 0.949, math.nan]
    assert results.successful("NN", "I", 64) == 3
    assert math.isnan(results.accuracy("NN", "I", 64).value)
    results.learnt["NN", "I"][1, 3] = 0.95
    found = results.accuracy("NN", "I", 64)
    assert found.value == pytest.approx(100 * results.best["NN", "I"][1, :4].mean())


def test_the_spread_of_narrow_networks_lies_in_its_interval_in_95_percent_of_draws_whatever_images_share():
    rng, held, true = np.random.default_rng(1), [], 2.0
    results = made()
    for _ in range(2000):
        shared = 0.03 * rng.normal(size=(4, 5))  # of every width and run, by its images
        for how in INFERENCES:
            for group in GROUPS:
                own = np.array([[true], [1], [1], [1]]) * rng.normal(size=(4, 5))
                results.best[how, group] = 0.5 + rng.normal() + shared + 0.01 * own
        found = results.fluctuation()
        held.append(found.low <= true <= found.high)
    assert np.mean(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.05 * 0.95 / 2000))


def test_runs_that_do_not_differ_have_no_spread_to_compare():
    results = made(noise=0.0)
    assert math.isnan(results.fluctuation().value)


class Quiet:
    """A task that nobody follows."""

    def step(self, done, total):
        """Nothing is shown."""


def test_draws_are_those_of_the_law_of_one_network_and_their_mean_the_kernel_s_prediction():
    images = load_system_images("textures", None, train=30, test=40, pixels=4, seed=0)
    net, groups = architecture("VEC", 1), ("I", "O(3)^d")
    found = draw_accuracies(net, [images], groups, 1e-4, 3, Quiet(), draws=6)
    assert found["draws"].shape == (2, 1, 6)
    for i, group in enumerate(groups):
        tau = transformation(group, (4, 4, 3), seed=3)
        x, test = (np.asarray(tau(part), np.float32) for part in (images.train_x, images.test_x))
        outputs = predicted(np.asarray(net.kernel(x).ntk), np.asarray(net.kernel(test, x).ntk), images.targets, 1e-4)
        assert found["mean"][i, 0] == np.mean(outputs.argmax(axis=1) == images.test_y)
        drawn = InfiniteEnsemble(net, ridge=1e-4).fit(x, images.targets).sample(test, 6, key=jax.random.key(3))
        assert found["draws"][i, 0].tolist() == (drawn.argmax(axis=-1) == images.test_y).mean(axis=1).tolist()


@pytest.mark.parametrize("flips", [False, True])
def test_kernels_kept_on_disk_classify_as_in_memory_and_flips_double_the_training_set(tmp_path, flips):
    settings = CurveSettings(data="textures", pixels=4, depth=2, whole_images=36, whole_tested=20, ridge=1e-3)
    images = whole_images(settings, None)
    found = whole("VEC", flips, settings, None, tmp_path / "kept", Quiet())
    x, targets = images.train_x[:36].astype(np.float32), images.targets[:36]
    if flips:
        x, targets = np.concatenate([x, x[:, :, ::-1]]), np.concatenate([targets, targets])
    net = architecture("VEC", 2)
    test = images.test_x.astype(np.float32)
    K, across = net.kernel(x), net.kernel(test, x)
    assert {part: right.shape for part, right in found.items()} == {"validation": (2, 4), "test": (2, 20)}
    for i, field in enumerate(("ntk", "nngp")):
        train, cross = (np.asarray(getattr(k, field), np.float64) for k in (K, across))
        # the ridge of the averaged kernel is relative to its own diagonal, and of half as many samples
        unit = np.trace(train[:36, :36] + train[:36, 36:]) / 36 if flips else np.trace(train) / 36
        weights = np.linalg.solve(train + 1e-3 * unit * np.eye(len(x)), targets)
        assert found["test"][i].tolist() == ((cross @ weights).argmax(axis=1) == images.test_y).tolist()


def test_images_are_made_as_the_settings_say():
    images = CurveSettings(data="textures", images=60, pixels=4)
    x, _ = load(images, None)
    np.testing.assert_allclose([x.mean(axis=(1, 2, 3)), (x**2).mean(axis=(1, 2, 3))], [[0] * 60, [1] * 60], atol=1e-5)
    other, _ = load(replace(images, prepared="norm"), None)
    np.testing.assert_allclose((other**2).mean(axis=(1, 2, 3)), 1, rtol=1e-5)
    assert np.abs(other.mean(axis=(1, 2, 3))).max() > 0.1


def test_what_is_on_disk_is_gone_on_with(tmp_path):
    settings = CurveSettings(data="textures", pixels=4, depth=1, whole_images=27, whole_tested=5)

    class Killed(Quiet):
        def step(self, done, total):
            if done >= 0.6:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole("FCN", False, settings, None, tmp_path / "kept", Killed())
    tiles = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("c/*/*")}
    assert tiles
    found = whole("FCN", False, settings, None, tmp_path / "kept", Quiet())
    assert {path: path.stat().st_mtime_ns for path in tiles} == tiles
    other = whole("FCN", False, replace(settings), None, tmp_path / "other", Quiet())
    assert all(np.array_equal(found[part], other[part]) for part in found)


APPROXIMATED = CurveSettings(
    data="textures", pixels=4, depth=1, features=64, whole_images=90, whole_tested=20, exact_images=24,
    exact_features=(64, 4096), models=(), approximated=("GAP",), smallest=40,
)  # fmt: skip


def test_features_learn_as_their_kernel_does_with_the_ridge_that_is_best_in_validation():
    s, images = APPROXIMATED, whole_images(APPROXIMATED, None)
    phi = np.concatenate([features(s, None, "GAP", begin, Quiet())["features"] for begin in slices(s)])
    assert phi.shape == (90 + 10 + 20, 64)
    found = learnt(phi, images, s)
    assert feature_sizes(s).tolist() == [90]
    phi = phi.astype(np.float64)
    K, across = phi[:90] @ phi[:90].T, phi[90:] @ phi[:90].T
    unit, labels = np.trace(K) / 90, np.concatenate([images.train_y[90:], images.test_y])
    right = {
        r: (across @ np.linalg.solve(K + r * unit * np.eye(90), images.targets[:90])).argmax(axis=1) == labels
        for r in FEATURE_RIDGES
    }
    chosen = found["feature_ridge"][0]
    assert right[chosen][:10].mean() == found["feature_validation"][0] == max(r[:10].mean() for r in right.values())
    assert found["feature_right"][0].tolist() == right[chosen][10:].tolist()


def test_the_exact_kernel_and_features_classify_the_same_images():
    found = against_exact(APPROXIMATED, None, "GAP", Quiet())
    assert found["exact_right"].shape == (3, 24)


def test_folds_leave_as_many_images_of_every_class_to_learn_from():
    alike = out_of_fold(np.ones((40, 40)), np.eye(10)[np.arange(40) % 10] - 0.1)
    assert np.ptp(alike) < 1e-9
