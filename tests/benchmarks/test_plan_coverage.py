"""How many trained ensembles lie in the intervals of plans: a part of `python -m benchmarks plan_coverage`, and all."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def coverage():
    return importlib.import_module("benchmarks.bench_plan_coverage")


def counted(found):
    ensembles = sum(row.ensembles for row in found)
    return tuple(sum(getattr(row, name) for row in found) / ensembles for name in ("covered", "below"))


def test_the_settings_differ_in_network_width_data_group_time_and_measure(coverage):
    settings = coverage.SETTINGS
    assert sum(len(setting.epochs) for setting in settings) >= 20
    kinds = {setting.network.split()[0].strip(",") for setting in settings}
    assert {"MLP", "CNN", "GCNN"} <= kinds
    assert len({setting.data_name for setting in settings}) >= 4
    assert len({setting.group for setting in settings}) >= 5
    assert {name for setting in settings for name, _ in setting.measures} == set(coverage.MEASURES)


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 4])
def test_pilots_intervals_hold_trained_ensembles(coverage, index):
    """Two of the settings with 48 networks in place of 144: 34 ensembles beside each of 3 pilots."""
    setting = coverage.SETTINGS[index]
    outputs = setting.pool(coverage.PILOT * coverage.PILOTS + 48)
    found = coverage.rows(setting, outputs, draws=300)
    covered, below = counted(found)
    assert [row.ensembles for row in found] == [3 * (24 + 8 + 4)] * 2
    assert covered >= 0.82
    assert below >= 0.88
    assert str(found[0]).count("|") == coverage.HEAD.splitlines()[0].count("|")


@pytest.mark.slow
def test_ninety_percent_of_trained_ensembles_lie_in_the_intervals_over_all_settings(coverage):
    size = coverage.PILOT * coverage.PILOTS + coverage.ENSEMBLES
    found = [row for setting in coverage.SETTINGS for row in coverage.rows(setting, setting.pool(size))]
    covered, below = counted(found)
    assert covered >= 0.9
    assert below >= 0.95
    assert sum(row.known for row in found) >= 0.85 * coverage.PILOTS * len(found)
    assert min(row.covered / row.ensembles for row in found) >= 0.75
