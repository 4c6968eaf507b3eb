"""Which layer an audit names, and why."""

from __future__ import annotations

import re

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, shown


def network(rng: np.random.Generator) -> list:
    """Layers of a network that is not built to be equivariant; the second one mixes positions most."""
    kernel = 1 + 0.05 * rng.normal(size=(4, 4, 1))
    weights = rng.normal(size=(16, 8))
    dense = lambda x: x.reshape(len(x), -1) @ weights
    return [("conv", lambda x: x * kernel), ("relu", lambda x: np.maximum(x, 0)), ("dense", dense)]


def test_layers_show_where_the_error_grows_most() -> None:
    layers = network(np.random.default_rng(5))
    f = lambda x: layers[2][1](layers[1][1](layers[0][1](x)))
    report = et.audit(f, "C4", IMAGES, layers=layers, **QUIET)
    section = report.layers
    assert section.guilty == "conv"
    assert section.reason == "layer"
    assert section.steepest == "dense"
    assert shown(report, "grows most in") == ["dense"]
    errors = [layer.error for layer in section.layers]
    assert section.layers[2].growth == pytest.approx(errors[2] - errors[1])


def test_long_names_fold() -> None:
    name = "encoder." + "block." * 40 + "conv"
    layers = [(name, lambda x: x * np.arange(16.0).reshape(4, 4, 1)), ("sum", lambda x: x.sum((1, 2)))]
    report = et.audit(lambda x: layers[1][1](layers[0][1](x)), "C4", IMAGES, layers=layers, **QUIET)
    drawn = re.findall(r"<!-- (.*?) -->", report.html())
    assert name not in "".join(drawn)
    assert f"| {name} |" not in report.to_markdown()
