"""Kinds of inputs and of changes: sequences, sound, states, any batch axis, masked sets, and transforms of no group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import shown
from equitangents.audit import Batch, Transform
from equitangents.audit.contract.named_changes import brightness, contrast, crop, scale, shift, speed
from equitangents.audit.report.page import html
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


def test_masked_sets_are_compared_where_they_have_members() -> None:
    mask = RNG.random((9, 4)) < 0.6
    noise = RNG.normal(size=CLOUDS.shape)
    padded = lambda p, m: np.where(m[..., None], np.tanh(p), noise[: len(p)])
    assert verdict(padded, "S_n", et.Masked(CLOUDS, mask), "points") == "equivariant"
    assert verdict(padded, "S_n", (CLOUDS, mask + 0.0), "points", inputs=("points", "points")) == "broken"
    centre = lambda p, m: (p * m[..., None]).sum(1)
    for kinds in ({}, {"inputs": "vectors"}):
        assert verdict(centre, "SO3", et.Masked(CLOUDS, mask), "vectors", elements=3, **kinds) == "equivariant"
    assert verdict(lambda s, m: (s * m[..., None]).sum(1), "reversal", et.Masked(CLOUDS, mask)) == "equivariant"
    assert verdict(lambda s, m: (s * m[..., None]).sum(1), "sign", et.Masked(CLOUDS, mask), "values") == "equivariant"
    weighted = lambda p, m: (p * np.arange(4)[:, None] * m[..., None]).sum(1)
    assert verdict(weighted, "S_n", et.Masked(CLOUDS, mask)) == "broken"


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
    assert (report.data, report.remedies, report.lie) == (None, [], [])
    with pytest.raises(InvalidArgumentError, match="transforms form no group; remedies are for groups"):
        report.remedy("average")
    assert "Over the strength of changes" in html(report)


def test_what_is_invariant_to_a_transform_is_said_to_be_and_a_tolerance_is_kept() -> None:
    gain = Transform("gain", [0.5, 1.5])
    signs = lambda s: (s > 0).mean(1)
    assert verdict(signs, gain, SERIES) == "equivariant"
    small = lambda s: np.stack([signs(s), 1e-3 * np.abs(s).mean(1)], 1)
    assert verdict(small, gain, SERIES) == "broken"
    report = et.audit(small, gain, SERIES, tolerance=0.1, **QUIET)
    assert report.verdict == "equivariant within tolerance"
    assert [p.above for p in report.transforms[0].points] == [False, False]


def test_transforms_stand_beside_a_group_and_do_not_change_its_verdict() -> None:
    report = et.audit(lambda s: np.abs(np.fft.fft(s)), "translations", SERIES,
                      transforms=[Transform("gain", [0.5, 2]), Transform("speed", [0.8, 1.25])], **QUIET)  # fmt: skip
    assert report.verdict == "equivariant"
    assert [t.name for t in report.transforms] == ["gain", "speed"]
    assert not any(p.at_floor for t in report.transforms for p in t.points)
    assert len(shown(report, "transform")) == 2


def test_named_changes_are_of_the_first_input_along_time_wherever_the_batch_is() -> None:
    faster, first = Transform("speed", [0.8, 1.25]), lambda s: s[:, :4]
    alone = et.audit(first, faster, SERIES, **QUIET)
    by_steps = et.audit(lambda s: s[:4].T, faster, Batch(SERIES.T, axis=1), **QUIET)
    np.testing.assert_array_equal(by_steps.errors, alone.errors)
    named = et.audit(
        lambda x: first(x["sound"]) * x["gain"], faster, {"sound": SERIES, "gain": np.ones((9, 1))}, **QUIET
    )
    np.testing.assert_array_equal(named.errors, alone.errors)


def test_crops_are_compared_with_a_crop_and_outputs_may_follow() -> None:
    window = Transform(lambda x, s: x[:, int(s) : int(s) + 12], [2, 5], reference=0, name="crop")
    constant = et.audit(lambda s: np.ones((len(s), s.shape[1])), window, SERIES, **QUIET)
    assert (constant.verdict, constant.reason) == ("undecided", "constant")
    assert et.audit(lambda s: s.mean(1), window, SERIES, **QUIET).transforms[0].points[0].error.mean > 0.1
    follows = Transform("gain", [0.5, 2.0], outputs=lambda y, s: y * s)
    assert verdict(lambda s: 3 * s, follows, SERIES) == "equivariant"
    assert verdict(np.tanh, follows, SERIES) == "broken"


def test_named_changes_do_what_they_say() -> None:
    ramp = np.arange(8.0)[None]
    assert shift(ramp, 2).tolist() == [[0, 0, 0, 1, 2, 3, 4, 5]]
    assert shift(ramp, -3).tolist() == [[3, 4, 5, 6, 7, 0, 0, 0]]
    assert speed(ramp, 2.0).tolist() == [[0, 2, 4, 6, 0, 0, 0, 0]]
    assert speed(ramp, 0.5) == pytest.approx(ramp / 2)
    plane = np.indices((9, 9)).sum(0)[None, ..., None] - 8.0  # linear, 0 in the middle
    assert scale(plane, 2.0) == pytest.approx(plane / 2)
    assert crop(plane, 0.5) == pytest.approx(plane / 2)
    assert scale(plane + 9, 0.5)[0, 0].tolist() == [[0.0]] * 9
    assert brightness(np.array([[0.2, 0.9]]), 2.0).tolist() == [[0.4, 1.0]]
    assert brightness(np.array([[-2.0, 3.0]]), 2.0).tolist() == [[-4.0, 6.0]]
    assert contrast(np.array([[-1.0, 3.0]]), 0.5) == pytest.approx(np.array([[0.0, 2.0]]))


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Transform("loud", [1]), InvalidArgumentError, "fn is 'loud'; expected 'a function', 'gain'"),
        (lambda: Transform("gain", []), InvalidArgumentError, "strengths is"),
        (lambda: Transform("gain", [1, 1]), InvalidArgumentError, "every strength once"),
        (lambda: Transform("gain", ["a"]), InvalidTypeError, "expected numbers"),
        (lambda: verdict(np.tanh, Transform(lambda x, s: x[:3], [1]), SERIES), ShapeError, r"fn\(x, strength\)"),
        (lambda: verdict(np.tanh, Transform("speed", [-1]), SERIES), InvalidArgumentError, "speed is -1"),
        (lambda: verdict(np.tanh, Transform("scale", [2]), SERIES), ShapeError, "images"),
        (lambda: verdict(np.tanh, [Transform("gain", [2])] * 2, SERIES), InvalidArgumentError, "transforms hold twice"),
        (lambda: verdict(np.tanh, "sign", SERIES, transforms=3), InvalidTypeError, "transforms is 3"),
    ],
)
def test_transforms_that_cannot_be_used_are_refused(make, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_transforms_on_the_command_line(tmp_path: Path, monkeypatch, capsys) -> None:
    from equitangents.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("heard_sounds.py").write_text("def f(x):\n    return (x > 0).mean(1)\ndef louder(x, s):\n    return x * s\n")
    np.save("x.npy", SERIES)
    run = ["audit", "heard_sounds:f", "--data", "x.npy", "--on-data-only", "--fail-above", "0.01"]
    for told, status, said in (
        (["gain:0.5..2:4"], 0, ", gain from 0.5 to 2"),
        (["offset:0.1,1"], 3, "offset 1"),
        (["heard_sounds:louder:0.5,2"], 0, ", louder from 0.5 to 2"),
        (["gain:2..1"], 2, "LOW..HIGH"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*run, *(part for one in told for part in ("--transform", one))])
        output = capsys.readouterr()
        assert (stop.value.code or 0) == status
        assert said in output.out + output.err
