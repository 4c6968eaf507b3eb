"""A few frozen cases computed anew; `make test-frozen` draws more."""

import copy
import json
import math

import pytest

from . import files, kernels, refusals
from .__main__ import FAMILIES, failures, module_of

FAST = {
    "kernels": ["217", "219", "220", "221"],
    "audits": ["images row C4 None", "series spectrum translations None"],
    "ensembles": ["1", "9"],
    "refusals": ["Dense channels -1", "kernel nan", "cyclic 0"],
}


@pytest.mark.parametrize("family", FAST)
def test_a_few_cases_are_as_they_were_frozen(family):
    assert failures(family, FAST[family]) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_cases_are_those_that_there_are_and_finite(family):
    frozen = files.read(family)
    assert frozen.keys() <= set(module_of(family).names())
    json.dumps(frozen, allow_nan=False)


def test_a_planted_digit_nan_and_a_missing_case_are_found():
    frozen = files.read("kernels")["217"]
    key = next(key for key, value in frozen.items() if isinstance(value, list))
    assert files.difference(frozen, frozen, kernels.TOLERANCE) == []
    digit = copy.deepcopy(frozen)
    digit[key][0] *= 1 + 1e-7
    digit[key][0] = digit[key][0] or 1e-3
    nan = copy.deepcopy(frozen)
    nan[key][-1] = math.nan
    assert all(files.difference(frozen, other, kernels.TOLERANCE) for other in (digit, nan, {"net": frozen["net"]}))
    assert failures("kernels", ["no such"]) == ["kernels no such: not frozen"]
    assert files.difference({"error": "A"}, {"error": "B"}, refusals.TOLERANCE)
