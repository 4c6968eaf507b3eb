"""Where images keep their channels: read off shapes where these leave no doubt, and asked for where they do."""

from __future__ import annotations

import logging

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.audit.contract.layouts import layout_of
from equitangents.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(0)
QUIET = {"off_data": False, "effort": "quick", "resamples": 50}
OTHER = {"channels_first": "channels_last", "channels_last": "channels_first", None: None}
SIZES = st.integers(1, 40)


@pytest.mark.parametrize(
    ("shape", "stated", "layout"),
    [
        ((9, 3, 32, 32), None, "channels_first"),
        ((9, 32, 32, 3), None, "channels_last"),
        ((9, 1, 20, 30), None, "channels_first"),
        ((9, 64, 8, 8), None, "channels_first"),
        ((9, 8, 8, 64), None, "channels_last"),
        ((9, 1, 100), None, "channels_first"),
        ((9, 100, 1), None, "channels_last"),
        ((9, 2, 8, 8, 8), None, "channels_first"),
        ((9, 8, 8, 8), None, None),
        ((9, 3, 3, 32), None, None),
        ((9, 16, 20, 30), None, None),
        ((9, 4, 100), None, None),
        ((9, 100), None, None),
        ((9, 8, 8, 8), ["N", 8, "height", "width"], "channels_first"),
        ((9, 8, 8, 8), [None, None, None, 8], "channels_last"),
        ((9, 8, 8, 8), ["N", 8, 8, 8], None),
        ((9, 8, 8, 8), ["N", "h", 8, "w"], None),
        ((9, 3, 32, 32), ["N", 3, 32, 32], "channels_first"),
        ((9, 4, 100), ["N", 4, "time"], "channels_first"),
    ],
)
def test_what_a_shape_tells(shape: tuple[int, ...], stated: list[object] | None, layout: str | None) -> None:
    assert layout_of(shape, stated) == layout


@given(st.lists(SIZES, min_size=2, max_size=4))
def test_moving_the_channels_turns_the_answer_round(sizes: list[int]) -> None:
    first = (7, *sizes)
    last = (7, *sizes[1:], sizes[0])
    if layout_of(first) == "channels_first":
        assert layout_of(last) != "channels_first"
    assert layout_of((7, *sizes[::-1])) == OTHER[layout_of(first)]


@given(SIZES, st.integers(5, 40))
def test_square_images_are_read_whatever_their_channels(channels: int, side: int) -> None:
    assume(channels != side)
    assert layout_of((7, channels, side, side)) == "channels_first"
    assert layout_of((7, side, side, channels)) == "channels_last"


def exported(f):
    """A model of a kind for which the field has no habit, as ONNX files and PyTorch modules are."""
    model = as_model(f)
    model.states_layout = True
    return model


def weighted(x):
    return np.asarray(x).reshape(len(x), 3, 6, 6) @ np.arange(6.0) @ np.arange(6.0)


def test_a_layout_that_is_read_is_the_one_that_would_be_given(caplog: pytest.LogCaptureFixture) -> None:
    x = RNG.normal(size=(12, 3, 6, 6))
    with caplog.at_level(logging.INFO, "equitangents.audit"):
        read = et.audit(exported(weighted), "C4", x, **QUIET)
    assert "layout: channels_first, read off the shape (12, 3, 6, 6)" in caplog.text
    given_ = et.audit(exported(weighted), "C4", x, layout="channels_first", **QUIET)
    np.testing.assert_array_equal(read.errors, given_.errors)
    assert read.contract.layout == "channels_first"
    acted = et.audit(exported(weighted), et.actions.image_rotations(4), x, **QUIET)
    np.testing.assert_array_equal(acted.errors, given_.errors)


def test_a_transform_reads_it_too() -> None:
    x = RNG.normal(size=(12, 3, 6, 6))
    shift = et.audit.Transform("shift", [1, 2])
    read = et.audit(exported(weighted), shift, x, **QUIET)
    np.testing.assert_array_equal(
        read.errors, et.audit(exported(weighted), shift, x, layout="channels_first", **QUIET).errors
    )
    with pytest.raises(InvalidArgumentError, match="does not tell it"):
        et.audit(exported(weighted), shift, RNG.normal(size=(12, 6, 6, 6)), **QUIET)


def test_a_layout_in_doubt_is_asked_for() -> None:
    for shape in ((12, 6, 6, 6), (12, 3, 3, 9)):
        with pytest.raises(InvalidArgumentError, match=r"layout is not stated, .*does not tell it; give layout="):
            et.audit(exported(weighted), "C4", np.zeros(shape), **QUIET)


def test_a_group_and_data_in_each_other_s_place_are_told() -> None:
    x = RNG.normal(size=(5, 4, 4, 1))
    for action, data in ((x, "C4"), (x, et.actions.image_rotations(4)), (x.tolist(), "C4"), (jax.numpy.asarray(x), x)):
        with pytest.raises(InvalidTypeError, match=r"second argument is .*; the order is audit\(model, group, x\)"):
            et.audit(lambda a: a.sum((1, 2)), action, data)
    with pytest.raises(
        InvalidTypeError, match=r"second argument is data, of shape \(5, 4, 4, 1\); the order is \(f, act"
    ):
        et.metrics.equivariance_error(lambda a: a, x, et.actions.image_rotations(4))
