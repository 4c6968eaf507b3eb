"""Errors are data: argument, value, what is expected and what helps; one text is made of them, in one place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import equitangents as et
from equitangents import errors
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingLibraryError,
    NotFiniteError,
    ShapeError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidArgumentError("time", -1, "at least 0", "leave it out"),
            "time is -1; expected at least 0; leave it out",
        ),
        (InvalidArgumentError("time", -1, "at least 0"), "time is -1; expected at least 0"),
        (InvalidArgumentError("time", None, remedy="leave it out"), "time is None; leave it out"),
        (InvalidTypeError("group", "C4", "a group"), "group is 'C4'; expected a group"),
        (ShapeError("x", (2, 3), "(N, 4)"), "x has shape (2, 3); expected (N, 4)"),
        (InvalidArgumentError("ridge", np.float32(0.5), "0"), "ridge is 0.5; expected 0"),
        (InvalidTypeError("x", list, "an array", verb="is of type"), "x is of type list; expected an array"),
        (InvalidTypeError("x", np.dtype(complex), "reals", verb="has dtype"), "x has dtype complex128; expected reals"),
        (NotFiniteError("x", (0, 1)), "x holds NaN or infinite values, the first at index (0, 1)"),
        (InvalidArgumentError("two stores differ"), "two stores differ"),
    ],
)
def test_its_text(error, text):
    assert str(error) == text
    assert error.shown({}) == text
    if error.argument is not None:
        assert error.shown({error.argument: "--it"}) == text.replace(error.argument, "--it", 1)


def test_its_parts_are_those_of_a_call():
    with pytest.raises(InvalidArgumentError) as caught:
        et.nn.Dropout(rate=1.5)
    error = caught.value
    assert (error.argument, error.value, error.expected) == ("rate", 1.5, "a probability, at least 0 and below 1")
    assert InvalidArgumentError("a message").argument is None


@pytest.mark.parametrize("value", [1.5, "a", lambda x: x, np.ones(2)], ids=["number", "text", "function", "array"])
def test_it_crosses_processes_with_any_value(value):
    error = InvalidArgumentError("fn", value, "a name", "give one")
    found = pickle.loads(pickle.dumps(error))
    said = lambda e: (type(e), str(e), e.shown({"fn": "--fn"}), e.argument, e.expected, e.remedy)
    assert said(found) == said(error)
    assert not isinstance(value, float | str) or found.value == value
    error = MissingLibraryError("zarr", "scale", "a Gram store")
    found = pickle.loads(pickle.dumps(error))
    assert (str(found), found.extra) == (str(error), "scale")


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - {"MissingLibraryError"}))
def test_every_class_takes_a_message_and_has_the_parts(name):
    error = getattr(errors, name)("a message")
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error) == error.shown({"a": "--a"}) == "a message"
    assert (error.argument, error.value, error.expected, error.remedy) == (None, None, "", "")
    assert isinstance(error, EquitangentsError)
