"""Kinds of inputs and of changes: sequences, sound, states, any batch axis, masked sets, and transforms of no group."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import shown
from equitangents.audit import Batch, Transform
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

QUIET = {"off_data": False, "data_test": None, "layers": False, "resamples": 20}
RNG = np.random.default_rng(0)
SERIES = RNG.normal(size=(9, 20))
CLOUDS = RNG.normal(size=(9, 4, 3))


def verdict(f, action, x, output_action=None, **more) -> str:
    return et.audit(f, action, x, output_action, effort="quick", **QUIET, **more).verdict


def test_sequences_are_shifted_reversed_and_negated() -> None:
    smooth = lambda s: np.roll(s, 1, 1) + s + np.roll(s, -1, 1)
    assert verdict(lambda s: np.abs(np.fft.fft(s)), "translations", SERIES) == "equivariant"
    assert verdict(smooth, "translations", SERIES, "sequences") == "equivariant"
    assert verdict(lambda s: smooth(s) * np.arange(20), "translations", SERIES, "sequences") == "broken"
    assert verdict(smooth, "reversal", SERIES, "sequences") == "equivariant"
    assert verdict(lambda s: s - np.roll(s, 1, 1), "reversal", SERIES, "sequences") == "broken"
    assert verdict(np.sin, "sign", SERIES, "values") == "equivariant"
    assert verdict(np.cos, "sign", SERIES) == "equivariant"
    assert verdict(lambda s: np.sin(s + 0.1), "sign", SERIES, "values") == "broken"


def test_sequences_may_have_their_channels_first() -> None:
    x = RNG.normal(size=(9, 3, 20))
    conv = lambda s: s[:, :1] * np.roll(s, 2, axis=2)
    layout = {"layout": "channels_first", "inputs": "sequences"}
    assert verdict(conv, "translations", x, "sequences", **layout) == "equivariant"
    assert verdict(lambda s: np.roll(s, 1, axis=1) * s[:, :1, :1], "translations", x, "sequences", **layout) == "broken"


def test_states_turn_in_phase() -> None:
    z = RNG.normal(size=(9, 4)) + 1j * RNG.normal(size=(9, 4))
    assert verdict(lambda z: np.abs(z) ** 2, "SO2", z, inputs="states") == "equivariant"
    assert verdict(lambda z: z * np.abs(z), "D4", z, "states", inputs="states") == "equivariant"
    assert verdict(lambda z: z.real**2, "SO2", z, inputs="states") == "broken"
    with pytest.raises(InvalidArgumentError, match="say with inputs= what it is, such as 'states'"):
        verdict(np.abs, "SO2", z)
    with pytest.raises(InvalidTypeError, match="a phase turns complex numbers"):
        verdict(np.abs, "SO2", z.real, inputs="states")


def test_the_batch_may_be_along_any_axis() -> None:
    by_steps = np.moveaxis(CLOUDS, 0, 1)
    seen = []

    def f(p: np.ndarray) -> np.ndarray:
        seen.append(p.shape)
        return np.cumsum(p, axis=0)

    told = {"inputs": "vectors", "elements": 3}
    assert verdict(f, "SO3", Batch(by_steps, axis=1), Batch("vectors", axis=1), **told) == "equivariant"
    assert (4, 9, 3) in seen
    assert verdict(lambda p: p[-1] + 0.1, "SO3", Batch(by_steps, axis=1), "vectors", **told) == "broken"
    with pytest.raises(ShapeError, match="an axis for the batch; 3"):
        verdict(f, "SO3", Batch(by_steps, axis=3), **told)


def test_hidden_states_have_a_batch_axis_of_their_own() -> None:
    h = RNG.normal(size=(2, 9, 3))

    def recurrent(p: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return p + h[0][:, None], h + p.sum(1)

    x, kinds = (CLOUDS, Batch(h, axis=1)), {"inputs": ("vectors", "vectors"), "elements": 3}
    assert verdict(recurrent, "O3", x, ("vectors", Batch("vectors", axis=1)), **kinds) == "equivariant"
    assert verdict(recurrent, "O3", x, (None, Batch("vectors", axis=1)), **kinds) == "broken"


def test_a_curve_over_strength_is_the_literal_one() -> None:
    f = lambda s: np.tanh(s[:, :3])
    strengths = [0.5, 1.0, 2.0]
    report = et.audit(f, Transform(lambda x, s: x * s, strengths, name="loudness"), SERIES, relative_to="norm", **QUIET)
    off = [np.linalg.norm(f(SERIES * s) - f(SERIES), axis=1) / np.linalg.norm(f(SERIES), axis=1) for s in strengths]
    curve = report.transforms[0]
    assert [p.strength for p in curve.points] == strengths
    assert [p.error.mean for p in curve.points] == pytest.approx(np.mean(off, axis=1))
    assert [p.at_floor for p in curve.points] == [False, True, False]
    assert all(p.error.low < p.error.mean < p.error.high for p in curve.points if not p.at_floor)
    worst = int(np.argmax(np.mean(off, axis=1)))
    assert shown(report, "transform")[0].startswith(f"loudness {strengths[worst]:g} ")
    assert "loudness from 0.5 to 2" in report.first_line
    assert shown(report, "fails under")[0].endswith("2 of 3 strengths")
    assert (report.data, report.remedies) == (None, [])
    with pytest.raises(InvalidArgumentError, match="transforms form no group; remedies are for groups"):
        report.remedy("average")
    assert "Over the strength of changes" in report.html()


def test_what_is_invariant_to_a_transform_is_said_to_be_and_a_tolerance_is_kept() -> None:
    gain = Transform(np.multiply, [0.5, 1.5])
    signs = lambda s: (s > 0).mean(1)
    assert verdict(signs, gain, SERIES) == "equivariant"
    small = lambda s: np.stack([signs(s), 1e-3 * np.abs(s).mean(1)], 1)
    assert verdict(small, gain, SERIES) == "broken"
    report = et.audit(small, gain, SERIES, tolerance=0.1, **QUIET)
    assert report.verdict == "equivariant within tolerance"
    assert [p.above for p in report.transforms[0].points] == [False, False]


def test_a_transform_gets_batches_as_the_model_has_them() -> None:
    first = lambda s: s[:, :4]
    alone = et.audit(first, Transform(lambda x, s: np.roll(x, int(s), 1), [1, 2]), SERIES, **QUIET)
    by_steps = Transform(lambda x, s: np.roll(x, int(s), 0), [1, 2])
    report = et.audit(lambda s: s[:4].T, by_steps, Batch(SERIES.T, axis=1), **QUIET)
    np.testing.assert_array_equal(report.errors, alone.errors)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Transform("gain", [1]), InvalidTypeError, "fn is 'gain'; expected a function"),
        (lambda: Transform(np.multiply, []), InvalidArgumentError, "strengths is"),
        (lambda: Transform(np.multiply, [1, 1]), InvalidArgumentError, "every strength once"),
        (lambda: Transform(np.multiply, ["a"]), InvalidTypeError, "expected numbers"),
        (lambda: verdict(np.tanh, Transform(lambda x, s: x[:3], [1]), SERIES), ShapeError, r"fn\(x, strength\)"),
        (lambda: verdict(np.tanh, Transform(lambda x, s: (x, x), [1]), SERIES), InvalidTypeError, "2 arrays"),
    ],
)
def test_transforms_that_cannot_be_used_are_refused(make, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()
