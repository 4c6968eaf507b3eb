"""Annotated shapes can be checked, are, and say what holds."""

from __future__ import annotations

import sys
from types import FunctionType

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped

from array_types import annotated_modules, annotations_of, check_arrays, holds_array


def stacked(x: Float[np.ndarray, "n d"], skip: int = 0) -> Float[np.ndarray, "n two_d"]:
    return np.hstack([x, x])[skip:]


def _doubled(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return np.add(x, x)


def inside(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return np.add(x, x)


def counted(x: list[int], more: NotThere) -> int:  # noqa: F821
    return len(x)


__all__ = ["stacked"]
public, private, other = (jaxtyped(function, typechecker=check_arrays) for function in (stacked, _doubled, inside))


def test_what_comes_back_must_fit_what_went_in():
    assert public(np.ones((3, 2)), skip=np.int64(0)).shape == (3, 4)  # of what is not an array nothing is asked
    with pytest.raises(TypeCheckError, match="return value"):
        public(np.ones((3, 2)), skip=1)
    with pytest.raises(TypeCheckError, match="return value"):
        public(np.ones((3, 2), dtype=int))


def test_public_functions_may_be_given_lists_and_private_ones_may_not():
    assert public([[1.0, 2.0]]).shape == (1, 4)
    assert private(np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(TypeCheckError):
        private([[1.0, 2.0]])


def test_functions_that_no_package_offers_must_be_given_what_they_are_annotated_with():
    assert other(np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(TypeCheckError):
        other([[1.0, 2.0]])


def test_the_package_is_checked():
    from equitangents.sphere.harmonics import harmonics

    assert "jaxtyping" in harmonics.__code__.co_filename


def test_of_their_functions_those_that_are_annotated_with_an_array_are_checked_and_others_left_as_they_are():
    assert jaxtyped(counted, typechecker=check_arrays) is counted
    for name in annotated_modules():
        for function in vars(sys.modules[name]).values() if name in sys.modules else ():
            if isinstance(function, FunctionType) and function.__module__ == name:
                checked = any("jaxtyping" in each.__code__.co_filename for each in layers_of(function))
                assert checked or not any(map(holds_array, annotations_of(function))), function


def layers_of(function):
    """A function and those that it wraps, decorators outside."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def test_modules_that_annotate_arrays_are_all_checked():
    checked = set(annotated_modules())
    assert {"equitangents.sphere.harmonics", "equitangents.sphere.transforms"} <= checked
    for name, module in sys.modules.items():
        if name.startswith("equitangents.") and name not in checked:
            assert not any(map(holds_array, vars(module).values())), name
