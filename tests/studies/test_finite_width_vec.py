"""The study of VEC against width: what its claims make of made-up runs, and which settings it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equitangents_studies.finite_width_vec import GROUPS, INFERENCES, Results, Settings, claims
from studies.small import follow

WIDTHS = (16, 64, 128, 256)


SETTINGS = Settings(widths=WIDTHS, runs=5, needed=4)


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
    return Results(WIDTHS, 4, best, dict(best), share, limit, single)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["holds"] * 9),
        ({"fall": -3.0}, {0: "fails", 1: "fails"}),
        ({"fall": 0.0}, {0: "undecided"}),
        ({"ahead": -5.0}, {2: "fails"}),
        ({"behind": -9.0}, {3: "fails"}),
        ({"moved": 2.0}, {4: "fails"}),
        ({"narrow": 1.0}, {5: "undecided"}),
        ({"narrow": 0.1}, {5: "fails"}),
        ({"draws": 90.0}, {6: "fails", 7: "fails"}),
        ({"cost": -6.0, "behind": -9.0}, {8: "fails"}),
        ({"learnt": 0.9}, dict.fromkeys((0, 1, 2, 3, 6, 7, 8), "undecided")),
    ],
)
def test_a_claim_follows_its_numbers(change, expected):
    found = claims(SETTINGS, made(**change))
    follow(found, expected)
    assert [claim.kind for claim in found] == ["source"] * 6 + ["ours"] * 2 + ["source"]


def test_draws_are_compared_with_networks_at_the_end_and_the_mean_with_their_best():
    results = made()
    results.last["NN", "I"] = results.best["NN", "I"] - 0.04
    apart = results.ahead("NN", "I", 64, "draws").value - results.ahead("NN", "I", 64).value
    assert apart == pytest.approx(60 - 50 - 4, abs=0.5)


def test_widths_that_were_not_trained_decide_nothing_about_the_best_width():
    r, kept = made(), slice(0, 2)
    best, last, learnt = ({key: rows[kept] for key, rows in arrays.items()} for arrays in (r.best, r.last, r.learnt))
    few = Results(WIDTHS[kept], 4, best, last, learnt, r.limit, r.draws)
    follow(claims(Settings(widths=WIDTHS[kept], runs=5, needed=4), few), {0: "undecided", 1: "undecided"})


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
