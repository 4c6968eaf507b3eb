"""Which architecture suits data: factors of samples, and what follows from numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.statistics import Estimate
from equitangents_studies.systems import architecture, compare_architectures, learning_curve, rotate, textures
from equitangents_studies.systems.architecture_comparison import (
    ArchitectureComparison,
    check_groups,
    default_architectures,
    notices,
)
from equitangents_studies.systems.curves import LearningCurve
from equitangents_studies.systems.exchange import cell, compared, log_factor_at_end

SIZES = np.array([10, 20, 40, 80, 160])
N = SIZES.astype(np.float64)
SMALL = {"architectures": ["FCN", "GAP"], "groups": ["O(3d)"], "depth": 1}


@pytest.fixture(scope="module")
def drawn():
    return textures(60, (4, 4, 2), classes=2, seed=1)


@pytest.fixture(scope="module")
def found(drawn):
    return compare_architectures(drawn.x, drawn.labels, groups=["O(3)xI", "O(3)^d"], depth=1, repetitions=10)


class TestFactorsAtTheEnd:
    @pytest.mark.parametrize("seed", range(5))
    def test_recover_the_factor_between_shifted_power_laws(self, seed):
        rng = np.random.default_rng(seed)
        exponent, factor = rng.uniform(0.2, 1), rng.uniform(1.1, 8)
        worse, better = 3 * N**-exponent, 3 * (factor * N) ** -exponent
        assert np.exp(log_factor_at_end(N, worse, better)) == pytest.approx(factor)
        assert log_factor_at_end(N, better, worse) == pytest.approx(-np.log(factor))

    def test_end_with_the_smallest_training_set_and_are_none_of_errors_that_vanish(self):
        assert np.exp(log_factor_at_end(N, 1 + 0.01 / N, 0.1 / N)) == pytest.approx(16)
        assert np.isnan(log_factor_at_end(N, 1.0 / N, 0.0 * N))


def test_all_intervals_of_a_comparison_hold_together(found):
    """Of every factor, its difference and its bound at once."""
    pairs = len(found.factors)
    assert pairs > 1
    expected = 1 - 0.05 / (3 * pairs)
    for factor in found.factors:
        assert factor.estimate.confidence == pytest.approx(expected)
        assert factor.difference.confidence == pytest.approx(expected)


class TestCandidates:
    def test_pool_over_the_first_window_that_fits_more_than_once(self):
        assert default_architectures((4, 4, 3)) == ("FCN", "VEC", "LAP2", "GAP")
        assert default_architectures((32, 32, 3))[2] == "LAP4"
        assert default_architectures((5, 7, 1)) == ("FCN", "VEC", "GAP")

    def test_groups_are_named_for_the_channels_of_the_data_and_the_identity_is_left_out(self):
        names = ["I", "O(3)xI", "O(3)^d", "P(3d)", "O(3d)", "O(2d)"]
        assert [g.name for g in check_groups(names, (4, 4, 2))] == ["O(2)xI", "O(2)^d", "P(2d)", "O(2d)"]

    def test_moved_data_are_measured_where_theorem_4_1_lets_predictions_change(self):
        groups = check_groups(["O(3)xI", "O(3)^d", "P(3d)", "O(3d)"], (4, 4, 3))
        noticed = {name: [notices(name, g, (4, 4, 3)) for g in groups] for name in ("FCN", "LCN", "VEC", "LAP2", "GAP")}
        assert noticed["FCN"] == [False] * 4
        assert noticed["LCN"] == noticed["VEC"] == [False, False, True, True]
        assert noticed["LAP2"] == noticed["GAP"] == [False, True, True, True]


class TestCurves:
    def test_are_those_of_learning_curve_on_data_moved_by_the_group(self, found, drawn):
        x = ((drawn.x - drawn.x.mean()) / drawn.x.std()).astype(np.float32)
        moved = np.asarray(rotate(x, "O(2)^d", 0), np.float32)
        own = learning_curve(
            architecture("GAP", 1), moved, drawn.labels, sizes=found.sizes, repetitions=10, ridge=1e-4, predict=None
        )
        assert np.array_equal(own.squared, found.curve("GAP", "O(2)^d").squared)
        assert found.settings["inputs"] == 60

    def test_are_not_made_where_a_group_is_not_noticed_and_the_kernel_shows_that_it_is_not(self, found):
        assert set(found.checks) == {
            *((name, "O(2)xI") for name in ("FCN", "VEC", "LAP2", "GAP")), ("FCN", "O(2)^d"), ("VEC", "O(2)^d"),
        }  # fmt: skip
        assert np.max(list(found.checks.values())) < 1e-5
        assert found.curve("VEC", "O(2)^d") is found.curve("VEC")

    def test_show_every_factor_and_the_best(self, found):
        text = str(found)
        for what, factor, verdict in found.factor_rows():
            assert f"samples, {what}: {factor}: {verdict}" in text
        assert f"not beaten: {', '.join(found.best)}" in text

    def test_of_numbers_and_of_a_test_set_of_their_own(self, drawn):
        y = drawn.x.sum(axis=(1, 2, 3))
        own = compare_architectures((drawn.x[:40], y[:40], drawn.x[40:], y[40:]), **SMALL)
        assert (own.error, own.settings["test_inputs"], own.sizes[-1]) == ("squared", 20, 40)
        assert own.settings["classes"] == 0

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"architectures": ["FCN"]}, "two or more"),
            ({"architectures": ["FCN", "LAP3"]}, "'LAP3'; expected a part that divides"),
            ({"architectures": ["FCN", "CNN"]}, "'CNN'"),
            ({"groups": ["O(5)^d"]}, "expected 2; the number of channels"),
            ({"inputs": 31}, "inputs"),
            ({"error": "log"}, "expected 'classification' or 'squared'"),
        ],
    )
    def test_of_what_cannot_be_compared_are_refused(self, drawn, changes, message):
        with pytest.raises(InvalidArgumentError, match=message):
            compare_architectures(drawn.x, drawn.labels, **{**SMALL, **changes})

    def test_need_a_grid(self, drawn):
        with pytest.raises(ShapeError, match="on a grid"):
            compare_architectures(drawn.x.reshape(60, -1), drawn.labels)


@dataclass
class Made:
    """Comparisons of curves that are made up."""

    noise: float

    def __call__(self, **means: np.ndarray) -> ArchitectureComparison:
        rng = np.random.default_rng(0)
        curves = {}
        for name, mean in means.items():
            errors = np.asarray(mean)[:, None] * np.exp(self.noise * rng.normal(size=(len(SIZES), 10)))
            curves[name, "I"] = LearningCurve(name, SIZES, None, errors, None, None, 200, 40, 0)
        names = tuple(means)
        pairs = [((a, "I"), (b, "I")) for i, a in enumerate(names) for b in names[i + 1 :]]
        factors = tuple(compared(a, b, curves, "squared", 0.99) for a, b in pairs)
        return ArchitectureComparison(names, (), curves, factors, {}, "squared", 0.95, {})


class TestFactors:
    def test_the_interval_of_the_difference_decides_which_needs_fewer(self):
        found = Made(0.01)(FCN=SIZES**-0.5, GAP=(4 * SIZES) ** -0.5)
        assert (found.factors[0].verdict, found.best) == ("fewer", ("GAP",))
        turned = Made(0.01)(FCN=(4 * SIZES) ** -0.5, GAP=SIZES**-0.5)
        assert (turned.factors[0].verdict, turned.best) == ("more", ("FCN",))

    def test_nothing_is_decided_where_the_interval_holds_0(self):
        found = Made(0.3)(FCN=SIZES**-0.5, VEC=(1.05 * SIZES) ** -0.5)
        assert (found.factors[0].verdict, found.best) == ("undecided", ("FCN", "VEC"))

    def test_curves_without_a_common_error_have_a_bound(self):
        found = Made(0.01)(FCN=1 + 0.1 / SIZES, GAP=0.1 / SIZES)
        assert (found.factors[0].bound, found.factors[0].verdict) == (16, "fewer")
        assert found.factor_rows()[0][1] == "> 16"

    def test_of_flat_curves_say_no_bound_that_no_interval_supports(self):
        found = Made(0.3)(FCN=1 + 0 * SIZES, GAP=np.array([0.98, 0.9, 0.8, 0.6, 0.1]))
        assert (found.factors[0].bound, found.factors[0].verdict) == (None, "fewer")

    def test_say_at_least_where_the_better_curve_begins_below_where_the_worse_one_ends(self):
        falling, flat = np.array([0.75, 0.7, 0.6, 0.4, 0.1]), 1 + 0 * SIZES
        for a, b, shown in ((flat, falling, "≥ 16"), (falling, flat, "≤ 0.06")):
            found = Made(0.3)(FCN=a, GAP=b)
            found = replace(found, factors=(replace(found.factors[0], bound=None),))  # as of noisier curves
            assert found.factors[0].cut
            assert cell(found.factors[0]).startswith(shown)
        assert not Made(0.01)(FCN=SIZES**-0.5, GAP=(4 * SIZES) ** -0.5).factors[0].cut

    def test_of_errors_that_vanish_decide_nothing(self, tmp_path):
        found = Made(0.0)(FCN=SIZES**-0.5, GAP=0.0 * SIZES)
        assert found.factors[0].verdict != "more"
        assert json.loads(found.to_json(tmp_path / "a.json").read_text())["factors"][0]["interval"] == [None, None]


@pytest.mark.slow
def test_textures_are_learnt_with_fewest_samples_by_global_pooling_and_not_once_positions_are_torn_apart():
    drawn = textures(200, (8, 8, 3), classes=4, tint=0.3)
    found = compare_architectures(drawn.x, drawn.labels, depth=2, error="squared")
    assert found.best == ("GAP",)
    for group in ("O(3)^d", "P(3d)", "O(3d)"):
        assert found.factor(("GAP", group), ("GAP", "I")).verdict == "fewer"


def test_a_cell_shows_on_which_side_of_1_an_interval_ends():
    f = SimpleNamespace(bound=None, cut=False, estimate=Estimate(5.0, 0.7, 38.0, 0.95))
    assert cell(f) == "5 (0.7 to 38)"
    f.estimate = Estimate(1.5, 1.04, 30.0, 0.95)
    assert "(1.04 to" in cell(f)
