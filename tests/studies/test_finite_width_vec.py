"""The study of VEC against width: what its claims make of made-up runs, and which settings it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equitangents import studies
from equitangents.errors import EquitangentsError
from equitangents_studies.finite_width_vec.claims import claims
from equitangents_studies.finite_width_vec.results import GROUPS, INFERENCES, Results, Settings

WIDTHS = (16, 64, 128, 256)


def made(*, fall=3.0, ahead=5.0, cost=6.0, shrinks=1.0, behind=2.0, learnt=1.0, noise=0.2):
    """Runs with 60 % for the NTK; networks `ahead` up to 128 channels, and `fall` worse at 256; rotations `cost`."""
    rng = np.random.default_rng(0)
    curve = np.array([60 + ahead, 60 + ahead, 60 + ahead, 60 + ahead - fall])
    rotated = np.array([curve[0] - cost - shrinks, *(curve[1:3] - cost), curve[3] - cost])
    rotated = np.minimum(rotated, 60 - behind) if behind > 0 else rotated - behind
    best = {}
    for how in INFERENCES:
        for group, level in zip(GROUPS, (curve, rotated), strict=True):
            best[how, group] = (level[:, None] + noise * rng.normal(size=(4, 5))) / 100
    share = {key: np.full((4, 5), learnt) for key in best}
    limit = {group: (60 + 0.1 * rng.normal(size=5)) / 100 for group in GROUPS}
    return Results("cifar10", WIDTHS, 4, best, best, share, limit, np.zeros((2, 1, 8, 8, 3)))


def verdicts(settings=None, **change):
    s = settings or Settings(widths=WIDTHS, runs=5, needed=4)
    return [claim.verdict.split()[0] for claim in claims(s, made(**change))]


EXPECTED = ["holds", "holds", "holds", "holds", "holds", "not"]


def test_all_that_can_be_decided_holds_where_the_source_says_so():
    assert verdicts() == EXPECTED


@pytest.mark.parametrize(
    ("place", "change", "verdict"),
    [
        (0, {"fall": -3.0}, "fails"),
        (0, {"fall": 0.0}, "not"),
        (1, {"ahead": -5.0}, "fails"),
        (2, {"cost": -6.0, "behind": -9.0}, "fails"),
        (3, {"shrinks": -4.0, "fall": -3.0}, "fails"),
        (4, {"behind": -9.0}, "fails"),
        (0, {"learnt": 0.9}, "not"),
        (1, {"learnt": 0.9}, "not"),
        (2, {"learnt": 0.9}, "not"),
        (3, {"learnt": 0.9}, "not"),
        (4, {"learnt": 0.9}, "not"),
    ],
)
def test_a_claim_follows_its_numbers(place, change, verdict):
    assert verdicts(**change)[place] == verdict


def test_the_accuracy_of_the_source_is_compared_at_its_size_alone():
    full = Settings(widths=WIDTHS, runs=5, needed=4, train_images=45_000, pixels=32)
    assert verdicts(full)[5] == "fails"
    assert verdicts(full, ahead=18.0)[5] == "holds"


def test_widths_that_were_not_trained_decide_nothing_about_the_best_width():
    results = made()
    kept = slice(0, 2)
    cut = lambda arrays: {key: rows[kept] for key, rows in arrays.items()}
    few = Results("cifar10", WIDTHS[kept], 4, cut(results.best), cut(results.last), cut(results.learnt), results.limit,
                  results.pictures)  # fmt: skip
    found = claims(Settings(widths=WIDTHS[kept], runs=5, needed=4), few)
    assert [claim.verdict.split()[0] for claim in found[:2]] == ["not", "not"]


def test_runs_that_do_not_reach_95_percent_do_not_count():
    results = made()
    results.learnt["NN", "I"][1] = [1.0, 1.0, 0.95, 0.949, math.nan]
    assert results.successful("NN", "I", 64) == 3
    assert math.isnan(results.accuracy("NN", "I", 64).value)
    results.learnt["NN", "I"][1, 3] = 0.95
    found = results.accuracy("NN", "I", 64)
    assert found.value == pytest.approx(100 * results.best["NN", "I"][1, :4].mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [({"widths": "8,12"}, "widths was"), ({"needed": "9"}, "needed was 9"), ({"widths": "8"}, "widths was")],
)
def test_settings_that_cannot_be_used_are_refused(change, message, tmp_path):
    with pytest.raises(EquitangentsError, match=message):
        studies.run("finite-width-vec", out=tmp_path / "run", settings={"data": "textures"} | change, progress=False)
    assert not (tmp_path / "run").exists()
