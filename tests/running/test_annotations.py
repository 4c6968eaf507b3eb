"""Annotated shapes can be checked, are, and say what holds."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped

from array_types import check_arrays


@jaxtyped(typechecker=check_arrays)
def twice(x: Float[np.ndarray, "n d"], keep: int = 0) -> Float[np.ndarray, "n twice_d"]:
    if x.ndim != 2:
        raise ValueError("x has the wrong shape")
    return np.concatenate([x, x], axis=1)[keep:]


def test_what_fits_passes_whatever_is_not_an_array():
    assert twice(np.ones((3, 2)), keep=np.int64(0)).shape == (3, 4)


def test_what_comes_back_must_fit_what_went_in():
    with pytest.raises(TypeCheckError, match="return value"):
        twice(np.ones((3, 2)), keep=1)


def test_arguments_that_do_not_fit_must_have_been_refused():
    with pytest.raises(ValueError, match="wrong shape"):
        twice(np.ones(3))
    with pytest.raises(TypeCheckError):
        twice(np.ones((3, 2), dtype=int))


def test_the_package_is_checked():
    from equitangents.sphere.harmonics import harmonics

    assert harmonics.__module__ == "equitangents.sphere.harmonics"
    assert "jaxtyping" in harmonics.__code__.co_filename
