"""Names of neural-tangents: those that are here, those that say what to use instead, and the idioms of the guide."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import equitangents
from equitangents import predict, stax
from equitangents.stax import missing

GUIDE = (Path(__file__).parents[2] / "docs/guide/neural-tangents.md").read_text("utf-8")
IDIOMS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in GUIDE.partition("## Twenty idioms")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
]


def test_missing_names_say_what_to_use_and_the_guide_has_them():
    not_here = GUIDE.partition("## Not here")[2]
    pooled = {"BatchNorm", "MaxPool"}  # which neural-tangents lacks as well
    for name in set(missing.ABSENT) - {"utils", "experimental"}:
        assert name not in stax.__all__
        assert name in not_here or name in pooled
        with pytest.raises(NotImplementedError, match=f"stax.{name}: "):
            getattr(stax, name)()
    for module in (stax, predict):
        with pytest.raises(AttributeError, match="Misspelt"):
            module.Misspelt


@pytest.mark.slow
def test_idioms_of_the_guide_run_as_they_stand():
    assert len(IDIOMS) == 20
    x = np.random.default_rng(0).normal(size=(5, 3))
    given = {"nt": equitangents, "stax": stax, "predict": predict, "jax": jax, "key": jax.random.key(0)}
    given |= {"x": x, "x2": x[:2] + 1, "y": x[:, :1], "loss": lambda fx, y: 0.5 * ((fx - y) ** 2).mean()}
    for theirs, verdict, _ in IDIOMS:
        if verdict == "by hand":
            with pytest.raises(NotImplementedError):
                exec(theirs.strip("`"), given)
        else:
            exec(theirs.strip("`"), given)
