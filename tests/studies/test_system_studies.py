"""Studies of learning systems: what their claims make of made-up numbers, and which settings they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equitangents.errors import EquitangentsError
from equitangents_studies import gaussian_vs_uniform as laws
from equitangents_studies import symmetry_breaking_path as along
from equitangents_studies import symmetry_groups as groups
from equitangents_studies.common.system_runs import load_system_images
from studies.small import follow, outcomes


class TestSymmetryGroups:
    settings = groups.Settings()

    def results(self, *, kernel=1e-7, change=0.3, coupled=1e-12, p=0.001, alarms=(0.05, 0.02, 0.09), embedded=1e-15):
        pairs = [(a, g) for a in groups.ARCHITECTURES for g in groups.GROUPS]
        equal = set(groups.entries(True, finite=False))
        alike = set(groups.entries(True, finite=True))
        rng = np.random.default_rng(0)
        right = lambda share: rng.random(2000) < share
        return groups.Results(
            {pair: kernel if pair in equal else 0.2 for pair in pairs},
            {pair: 1e-6 if pair in equal else change for pair in pairs},
            {pair: right(0.5) for pair in pairs},
            {pair: groups.METHODS.index("coupled" if pair in alike else "two-sample") for pair in pairs},
            {pair: coupled if pair in alike else p for pair in pairs},
            np.array(alarms),
            dict.fromkeys(groups.CHAIN, embedded),
        )

    @pytest.mark.parametrize(
        ("place", "change", "verdict"),
        [
            (0, {}, "holds"),
            *((i, {name: 1e-3}, "fails") for i, name in ((0, "embedded"), (1, "kernel"), (3, "coupled"))),
            *((i, {name: math.nan}, "undecided") for i, name in enumerate(("embedded", "kernel", "change", "coupled"))),
            (2, {"change": 1e-6}, "fails"),
            (4, {"p": 0.3}, "undecided"),
            (4, {"p": math.nan}, "undecided"),
            (5, {"alarms": (0.3, 0.2, 0.4)}, "fails"),
            (5, {"alarms": (0.1, 0.03, 0.2)}, "undecided"),
        ],
    )
    def test_a_claim_follows_its_numbers(self, place, change, verdict):
        found = groups.claims(self.settings, self.results(**change))
        follow(found, [verdict if i == place else "holds" for i in range(6)])
        assert found[4].interval_cell == "a p-value, which has no interval"

    def test_theorem_4_1_has_so_many_entries(self):
        assert len(groups.entries(True, finite=False)) == 17
        assert len(groups.entries(True, finite=True)) == 16
        assert ("VEC", "O(3)^d") in groups.entries(True, finite=False)
        assert ("VEC", "O(3)^d") in groups.entries(False, finite=True)


class TestSymmetryBreakingPath:
    settings = along.Settings(times=(0.0, 1.0), widths=(4, 8), members=12)

    def results(self, to_gap, to_limit, noise=0.1, learnt=(1.0, 1.0)):
        """VEC at 0 between GAP and the limit, then moved along the line between them."""
        rng = np.random.default_rng(0)
        members = lambda mean: mean + noise * rng.standard_normal((12, 20, 2))
        times, widths = self.settings.times, self.settings.widths
        means = {times[0]: 0.0, times[1]: to_gap[1] - to_gap[0]}
        return along.Results(
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
    settings = laws.Settings()

    def results(self, *, equal=1e-12, change=0.1, permuted=0.0, lead=0.0, spread=0.003):
        noise = np.random.default_rng(0).normal(size=(6, 8)) * spread
        scores = {
            (law, g): 0.5 + noise[3 * i + j] for i, law in enumerate(laws.LAWS) for j, g in enumerate(laws.GROUPS)
        }
        scores = {key: value + lead * (key[0] == "gaussian") for key, value in scores.items()}
        moved = np.array([0.0, permuted, change])[:, None] - 0.4 + np.zeros(5)
        return laws.Results(scores, dict.fromkeys(laws.COUPLED, equal), {1: moved, 8: moved / 64})

    @pytest.mark.parametrize(
        ("place", "change", "verdict"),
        [
            (0, {}, "holds"),
            (0, {"equal": 1e-3}, "fails"),
            (0, {"equal": math.nan}, "undecided"),
            (1, {"change": 0.0}, "fails"),
            (1, {"change": math.nan}, "undecided"),
            (2, {"lead": 0.1}, "fails"),
            (2, {"spread": 0.2}, "undecided"),
            (3, {"permuted": 0.1}, "fails"),
        ],
    )
    def test_claims_follow_their_numbers(self, place, change, verdict):
        follow(
            laws.claims(self.settings, self.results(**change)), [verdict if i == place else "holds" for i in range(4)]
        )

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
