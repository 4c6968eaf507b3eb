"""Kinds of inputs, outputs and changes: each moves as oracles by hand say, a planted fault of each is seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import QUIET, shown
from equitangents.audit import Batch, Boxes, Keypoints, Transform, Unordered
from equitangents.audit.contract.named import irreps_matrix, irreps_of
from equitangents.audit.contract.unordered import MatchedBoxes, MatchedRows, intersection_over_union
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(9, 6, 6, 1))
CLOUDS = RNG.normal(size=(9, 4, 3))
TURN = np.linalg.qr(RNG.normal(size=(3, 3)))[0]


def brightest(x: np.ndarray, count: int = 2) -> np.ndarray:
    """(row, column) of the brightest pixels, (N, count, 2)."""
    return np.stack(np.divmod(np.argsort(-x.reshape(len(x), -1), axis=1)[:, :count], x.shape[2]), axis=-1)


def boxes_of(x: np.ndarray) -> np.ndarray:
    """One pixel to each side of the brightest, pixels' edges at whole numbers."""
    i, j = np.moveaxis(brightest(x), -1, 0)
    return np.stack([j - 1.0, i - 1.0, j + 2.0, i + 2.0], axis=-1)


def raster(boxes: np.ndarray) -> np.ndarray:
    """The same boxes from left to right."""
    return np.take_along_axis(boxes, np.argsort(boxes[..., :1] + 0.01 * boxes[..., 1:2], axis=1), axis=1)


def verdict(f, action, x, output_action=None, **more) -> str:
    return et.audit(f, action, x, output_action, effort="quick", **QUIET, **more).verdict


def test_boxes_turn_and_reflect_with_the_image() -> None:
    assert verdict(boxes_of, "D4", IMAGES, "xyxy") == "equivariant"
    assert verdict(boxes_of, "D4", IMAGES, Boxes(pixels="centres")) == "broken", "one pixel off"
    assert verdict(lambda x: boxes_of(x) / 6, "C4", IMAGES, Boxes(normalized=True)) == "equivariant"
    centred = lambda x: np.concatenate([boxes_of(x)[..., :2] + 1.5, np.tile([3.0, 2.0], (len(x), 2, 1))], axis=-1)
    assert verdict(centred, "C4", IMAGES, "cxcywh") == "broken", "sides must change places"
    square = lambda x: np.concatenate([boxes_of(x)[..., :2] + 1.5, np.tile([3.0, 3.0], (len(x), 2, 1))], axis=-1)
    assert verdict(square, "C4", IMAGES, "cxcywh") == "equivariant"
    with pytest.raises(InvalidArgumentError, match="under which boxes stay boxes"):
        verdict(boxes_of, "C8", IMAGES, "xyxy")
    with pytest.raises(ShapeError, match="four numbers along the last axis"):
        verdict(lambda x: x[:, 0, :3, 0], "C4", IMAGES, "boxes")


def test_keypoints_move_with_the_pixels_and_left_becomes_right() -> None:
    points = lambda x: brightest(x)[..., ::-1]
    assert verdict(points, "D4", IMAGES, "keypoints") == "equivariant"
    assert verdict(points, "D4", IMAGES, Keypoints(pixels="edges")) == "broken"
    hands = lambda x: np.sort(points(x), axis=1) * [1.0, 0.0]  # the left one first
    assert verdict(hands, "D1", IMAGES * [[[[1.0]], [[2.0]], [[0]], [[0]], [[0]], [[0]]]], Keypoints()) == "broken"
    assert verdict(hands, "D1", IMAGES, Keypoints(swapped=[1, 0], size=(6, 6))) == "equivariant"
    with pytest.raises(InvalidArgumentError, match="swapped"):
        Keypoints(swapped=[1, 2, 0])
    with pytest.raises(InvalidArgumentError, match=r"action is 'SO\(3\)'; expected .* rotate keypoints in images"):
        verdict(lambda p: p[..., :2], "SO3", CLOUDS, "keypoints")


def test_masks_of_classes_are_judged_by_the_share_of_pixels_that_change() -> None:
    classes = lambda x: (x[..., 0] > 0).astype(int) + (x[..., 0] > 1)
    assert verdict(classes, "C4", IMAGES, "masks") == "equivariant"

    def planted(x: np.ndarray) -> np.ndarray:
        y = classes(x)
        y[:, 0, 0] = 7
        return y

    report = et.audit(planted, "C4", IMAGES, "masks", **QUIET)
    off = np.mean([np.rot90(planted(np.rot90(IMAGES, -k, (1, 2))), k, (1, 2)) != planted(IMAGES) for k in (1, 2, 3)])
    assert report.headline.unit == "share"
    assert report.headline.error.estimate.mean == pytest.approx(off) == pytest.approx(2 / 36)
    assert "error 5.56 %" in report.first_line
    assert shown(report, "error is") == ["f(x) share of pixels whose class changes"]
    with pytest.raises(ShapeError, match="soft masks are 'images'"):
        verdict(lambda x: x[..., 0], "C4", IMAGES, "masks")


def test_intersection_over_union_is_the_counted_one() -> None:
    a, b = RNG.integers(0, 6, (2, 4, 2)), RNG.integers(1, 5, (2, 4, 2))
    first, second = (np.concatenate([low, low + side], axis=1) for low, side in zip(a, b, strict=True))
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12), indexing="ij"), axis=-1)
    inside = lambda box: ((grid >= box[:2]) & (grid < box[2:])).all(axis=-1)
    counted = [[(inside(p) & inside(q)).sum() / (inside(p) | inside(q)).sum() for q in second] for p in first]
    assert intersection_over_union(first.astype(float), second.astype(float)) == pytest.approx(np.array(counted))
    points = np.array([[1.0, 1, 1, 1], [2, 2, 2, 2]])
    assert np.array_equal(intersection_over_union(points, points), np.eye(2)), "boxes without area"
    boxes = np.stack([first, first + 0.2])
    centred = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1)
    by_corners, by_centres = MatchedBoxes(False).compare(*boxes[:, None]), MatchedBoxes(True).compare(*centred[:, None])
    assert [*map(pytest.approx, by_corners)] == [*by_centres]


def test_sets_of_boxes_are_matched_whatever_their_order() -> None:
    ordered = lambda x: raster(boxes_of(x))
    assert verdict(ordered, "C4", IMAGES, "xyxy") == "broken", "the order must matter without Unordered"
    report = et.audit(ordered, "C4", IMAGES, Unordered(match="iou"), **QUIET)
    found = report.contract.outputs[0].matching
    assert (report.verdict, found.iou.mean, found.missed.mean, found.extra.mean) == ("equivariant", 1, 0, 0)
    assert verdict(ordered, "C4", IMAGES, Unordered("distance", "xyxy")) == "equivariant"


def test_a_missed_box_an_extra_box_and_a_moved_box_are_told_apart() -> None:
    def lost(x: np.ndarray) -> list[np.ndarray]:
        return [b[1:] if v[0, 0, 0] > 0 else b for b, v in zip(boxes_of(x), x, strict=True)]

    report = et.audit(lost, "C4", IMAGES, Unordered(), **QUIET)
    corner = IMAGES[:, 0, 0, 0] > 0
    turned = np.array([np.rot90(IMAGES, k, (1, 2))[:, 0, 0, 0] > 0 for k in (1, 2, 3)])
    missed = np.where(turned & ~corner, 0.5, 0.0).mean()
    extra = np.where(~turned & corner, 0.5, 0.0).mean()
    found = report.contract.outputs[0].matching
    assert (found.missed.mean, found.extra.mean) == (pytest.approx(missed), pytest.approx(extra))
    assert (found.iou.mean, report.headline.error.estimate.mean) == (1, pytest.approx(missed + extra))
    assert shown(report, "IoU of matched boxes")[0].startswith("f(x) 100 %")

    moved = lambda x: boxes_of(x) + np.array([0.3, 0, 0.3, 0])
    found = et.audit(moved, "C2", IMAGES, Unordered(), **QUIET).contract.outputs[0].matching
    assert found.iou.mean == pytest.approx((3 - 0.6) / (3 + 0.6)), "two boxes 3 wide, 0.6 apart"
    assert (found.missed.mean, found.extra.mean) == (0, 0)


def test_lists_of_dictionaries_of_detectors_are_read() -> None:
    def detector(x: np.ndarray) -> list[dict]:
        found = []
        for b, v in zip(boxes_of(x), x, strict=True):
            count = 1 + int(v.sum() > 0)
            found.append({"boxes": b[:count], "labels": np.ones(count, int)})
        return found

    kinds = {"boxes": Unordered(), "labels": Unordered("distance")}
    assert verdict(detector, "C4", IMAGES, kinds) == "equivariant"
    with pytest.raises(ShapeError, match=r"a list with one entry an input: .*Unordered\(match='iou'\)"):
        verdict(detector, "C4", IMAGES)
    with pytest.raises(ShapeError, match="has length 2; expected 0 to 1; raise most of Unordered"):
        verdict(detector, "C4", IMAGES, {"boxes": Unordered(most=1), "labels": Unordered("distance", most=1)})


def test_outputs_are_no_sets_where_there_are_as_many_of_them_as_inputs() -> None:
    f = lambda x: (boxes_of(x), x.sum((1, 2, 3)))
    for batch in (1, 2, 4):
        assert verdict(f, "C4", IMAGES, (Unordered(), None), batch_size=batch) == "equivariant"


@pytest.mark.quick(1)
@pytest.mark.parametrize("empty", [np.array([]), np.zeros((0, 4))], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_sets_without_any_item_have_no_width(empty: np.ndarray, batch: int) -> None:
    found = lambda x: [{"boxes": b if v.max() > 2 else empty} for b, v in zip(boxes_of(x), x, strict=True)]
    blank = np.concatenate([IMAGES[:4] / 9, IMAGES])
    assert {len(d["boxes"]) for d in found(blank)} == {0, 2}
    assert verdict(found, "C4", blank, {"boxes": Unordered()}, batch_size=batch) == "equivariant"


def test_matching_rows_is_the_best_of_all_orders_and_ignores_what_is_no_item() -> None:
    from itertools import permutations

    a, b = RNG.normal(size=(2, 1, 4, 2))
    best = min(np.linalg.norm(a[0, list(p)] - b[0]) for p in permutations(range(4)))
    total = min(np.linalg.norm(a[0, list(p)] - b[0], axis=1).sum() for p in permutations(range(4)))
    own = MatchedRows(None)
    ordered = own.compare(a, b)[1].reshape(1, 4, 2)
    assert np.linalg.norm(ordered - b, axis=2).sum() == pytest.approx(total)
    assert own.compare(a, b)[0][0] >= best - 1e-12
    fewer = np.where(np.arange(4)[:, None] < 3, b, 0)
    assert own.compare(fewer, b)[2][:, 0].tolist()[1:] == [0.25, 0.0]
    empty = MatchedBoxes(False)
    assert empty.compare(np.zeros((1, 3, 4)), np.zeros((1, 3, 4)))[0].tolist() == [0.0]


def test_irreps_turn_as_the_harmonics_of_e3nn() -> None:
    def harmonics(v: np.ndarray) -> np.ndarray:
        x, y, z = v.T
        second = np.array([np.sqrt(3) * x * z, np.sqrt(3) * x * y, y**2 - (x**2 + z**2) / 2, np.sqrt(3) * y * z,
                           np.sqrt(3) / 2 * (z**2 - x**2)])  # fmt: skip
        third = np.array([np.sqrt(5 / 6) * (second[0] * z + second[4] * x), np.sqrt(5) * second[0] * y,
                          np.sqrt(3 / 8) * (4 * y**2 - x**2 - z**2) * x, y * (2 * y**2 - 3 * x**2 - 3 * z**2) / 2,
                          np.sqrt(3 / 8) * z * (4 * y**2 - x**2 - z**2), np.sqrt(5) * second[4] * y,
                          np.sqrt(5 / 6) * (second[4] * z - second[0] * x)])  # fmt: skip
        return np.concatenate([v.T, second, third]).T

    v = CLOUDS[0]
    for R in (TURN, -TURN):
        D = irreps_matrix(irreps_of("1o+2e+3o", "kind"), R)
        assert harmonics(v @ R.T) == pytest.approx(harmonics(v) @ D.T, abs=1e-12)
    assert irreps_matrix(irreps_of("0o+1e", "kind"), -np.eye(3)) == pytest.approx(np.diag([-1.0, 1, 1, 1]))


def test_outputs_and_inputs_are_named_by_irreps() -> None:
    radii = lambda p: np.linalg.norm(p, axis=2)[:, :4]
    f = lambda p: np.concatenate([radii(p), p[:, 0], np.exp(-(p[:, 1:2] ** 2).sum(2)) * p[:, 1]], axis=1)
    assert verdict(f, "O3", CLOUDS, "4x0e+2x1o", elements=3) == "equivariant"
    assert verdict(f, "O3", CLOUDS, "4x0e+2x1e", elements=3) == "broken", "vectors are odd"
    assert verdict(f, "SO3", CLOUDS, "4x0e+2x1e", elements=3) == "equivariant", "rotations do not see parity"
    assert verdict(lambda p: np.linalg.det(p[:, :3]), "O3", CLOUDS, "0o", elements=3) == "equivariant", "numbers (N,)"
    assert verdict(lambda p: p[..., 3:].sum(1), "O3", np.concatenate([CLOUDS, CLOUDS[..., :2]], 2), inputs="1x1o+2x0e",
                   elements=3) == "equivariant"  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="expected irreps of SO3"):
        verdict(lambda x: x.mean((1, 2)), "C4", IMAGES, "1x0e")


@pytest.mark.parametrize(("kind", "factor"), [("voigt", 1.0), ("voigt:strain", 2.0)])
def test_voigt_tensors_turn_as_matrices_do(kind: str, factor: float) -> None:
    def tensor(p: np.ndarray, factor: float = factor) -> np.ndarray:
        S = np.einsum("npi,npj->nij", p, p)
        pairs = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
        return np.stack([S[:, i, j] * (1 if i == j else factor) for i, j in pairs], axis=1)

    assert verdict(tensor, "O3", CLOUDS, kind, elements=3) == "equivariant"
    assert verdict(lambda p: tensor(p, 3 - factor), "O3", CLOUDS, kind, elements=3) == "broken", "the other factor"
    assert verdict(lambda p: tensor(p)[:, [0, 1, 2, 5, 4, 3]], "O3", CLOUDS, kind, elements=3) == "broken", "the order"


def test_complex_outputs_count_both_parts() -> None:
    series = RNG.normal(size=(9, 16))
    spectrum = lambda s: np.fft.fft(s) * np.exp(1j * np.arange(16))
    report = et.audit(spectrum, "translations", series, **QUIET)
    turned = [np.exp(-2j * np.pi * k * np.arange(16) / 16) - 1 for k in range(1, 16)]
    off = [np.linalg.norm(spectrum(series) * t, axis=1) / np.linalg.norm(spectrum(series), axis=1) for t in turned]
    assert (report.error.estimate.mean, report.contract.outputs[0].shape) == (pytest.approx(np.mean(off)), [16])
    analytic = lambda s: s + 1j * np.roll(s, 1, 1)
    assert verdict(analytic, "translations", series, "sequences") == "equivariant"
    assert verdict(lambda s: s + 1j * np.arange(16) * s, "translations", series, "sequences") == "broken"
    json.dumps(et.audit(spectrum, "translations", series.astype(complex), inputs="sequences", **QUIET).to_dict())


def test_outputs_of_nodes_pairs_and_edges() -> None:
    edges = RNG.integers(4, size=(9, 7, 2))
    n = np.arange(9)[:, None]
    per_edge = lambda p, e: np.sin(p[n[: len(p)], e[..., 0]]) * p[n[: len(p)], e[..., 1]]
    nodes_kinds, x = {"inputs": ("nodes", "edges"), "elements": 6}, (CLOUDS, edges)
    stays = verdict(per_edge, "S_n", x, None, **nodes_kinds)
    follows = verdict(per_edge, "S7", x, "rows", inputs=(None, "rows"), elements=6)
    assert stays == follows == "equivariant", "rows stay where nodes are renamed, and move with the edges"
    assert verdict(lambda p, e: per_edge(p, e) * e[..., :1], "S_n", x, None, **nodes_kinds) == "broken"
    assert verdict(lambda p, e: p @ p.transpose(0, 2, 1), "S_n", x, "pairs", **nodes_kinds) == "equivariant"
    assert verdict(lambda p, e: p * np.arange(4)[:, None], "S_n", x, "nodes", **nodes_kinds) == "broken"
    assert verdict(lambda p, e: e, "S_n", x, "edges", **nodes_kinds) == "equivariant", "numbers of nodes are renamed"


def test_outputs_with_their_batch_along_another_axis() -> None:
    steps = lambda p: np.moveaxis(np.cumsum(p, axis=1), 0, 1)
    assert verdict(steps, "SO3", CLOUDS, Batch("vectors", axis=1), elements=3) == "equivariant"
    assert verdict(lambda p: steps(p) + 0.1, "SO3", CLOUDS, Batch("vectors", axis=1), elements=3) == "broken"
    with pytest.raises(ShapeError, match=r"output_action is Batch\(kind, axis=1\)"):
        verdict(steps, "SO3", CLOUDS, "vectors")


def test_kinds_are_named_on_the_command_line(tmp_path: Path, monkeypatch, command) -> None:
    from equitangents.cli.audit import output_kinds

    assert output_kinds("4x0e+2x1o") == "4x0e+2x1o"
    assert isinstance(output_kinds("vectors@1"), Batch)
    assert output_kinds("boxes=unordered:iou:cxcywh,score=none")["boxes"].of == "cxcywh"
    assert output_kinds("unordered:vectors").match == "distance"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("found_boxes.py").write_text(
        "import numpy as np\n"
        "def f(x):\n"
        "    i, j = np.divmod(x.reshape(len(x), -1).argmax(1), 6)\n"
        "    return {'boxes': np.stack([j, i, j + 1, i + 1], 1)[:, None], 'size': x.mean((1, 2, 3))}\n"
    )
    np.save("x.npy", IMAGES)
    arguments = ["audit", "found_boxes:f", "--data", "x.npy", "--group", "C4", "--on-data-only"]
    named = {"boxes=unordered,size=none": 0, "boxes=xyxy,size=invariant": 0, "boxes=none,size=none": 3}
    for kinds, status in named.items():
        assert command(*arguments, "--outputs", kinds, "--fail-above", "0.01")[0] == status


@pytest.mark.parametrize("group", ["D4", "translations"])
def test_complex_images_move_as_both_their_parts_do(group: str) -> None:
    x, images = np.random.default_rng(0).normal(size=(8, 6, 6, 1)), {"inputs": "images", "effort": "quick"}
    quick = {**images, "elements": 3} if group == "translations" else images
    wave = lambda x: x + 1j * x**2
    assert et.audit(wave, group, x, "images", **quick).verdict == "equivariant"
    off = lambda x: wave(x) + 1j * np.arange(6)[:, None]
    assert et.audit(off, group, x, "images", **quick).verdict == "broken"
    phase = et.audit(lambda x: (1 + 2j) * x, "C8", x, "images", **images)
    assert phase.error.estimate.mean < 1e-12, "resampled as both parts are"
    power = lambda z: (np.abs(z) ** 2).sum((1, 2))
    assert et.audit(power, "D4", x + 1j * x[::-1], **images).verdict == "equivariant"


SERIES = RNG.normal(size=(9, 20))


def test_sequences_are_shifted_reversed_and_negated() -> None:
    smooth = lambda s: np.roll(s, 1, 1) + s + np.roll(s, -1, 1)
    x, first = RNG.normal(size=(9, 3, 20)), {"layout": "channels_first", "inputs": "sequences"}
    for f, group, inputs, kind, expected, more in (
        (lambda s: np.abs(np.fft.fft(s)), "translations", SERIES, None, "equivariant", {}),
        (smooth, "translations", SERIES, "sequences", "equivariant", {}),
        (lambda s: smooth(s) * np.arange(20), "translations", SERIES, "sequences", "broken", {}),
        (lambda s: s[:, :1] * np.roll(s, 2, axis=2), "translations", x, "sequences", "equivariant", first),
        (lambda s: np.roll(s, 1, axis=1) * s[:, :1, :1], "translations", x, "sequences", "broken", first),
        (smooth, "reversal", SERIES, "sequences", "equivariant", {}),
        (lambda s: s - np.roll(s, 1, 1), "reversal", SERIES, "sequences", "broken", {}),
        (np.sin, "sign", SERIES, "values", "equivariant", {}),
        (np.cos, "sign", SERIES, None, "equivariant", {}),
        (lambda s: np.sin(s + 0.1), "sign", SERIES, "values", "broken", {}),
    ):
        assert verdict(f, group, inputs, kind, **more) == expected


def test_states_turn_in_phase() -> None:
    z = RNG.normal(size=(9, 4)) + 1j * RNG.normal(size=(9, 4))
    assert verdict(lambda z: np.abs(z) ** 2, "SO2", z, inputs="states") == "equivariant"
    assert verdict(lambda z: z * np.abs(z), "D4", z, "states", inputs="states") == "equivariant"
    assert verdict(lambda z: z.real**2, "SO2", z, inputs="states") == "broken"
    with pytest.raises(InvalidArgumentError, match=r"x has shape \(9, 4\); expected .*'states'"):
        verdict(np.abs, "SO2", z)
    with pytest.raises(InvalidTypeError, match="a phase multiplies complex numbers"):
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
    assert [e.parameter for e in report.elements] == strengths
    assert [e.judged.estimate.mean for e in report.elements] == pytest.approx(np.mean(off, axis=1))
    assert [e.at_floor for e in report.elements] == [False, True, False]
    assert report.first_line.endswith(", loudness")
    assert shown(report, "fails under")[0].endswith("2 of 3 strengths")
    assert report.remedies == []
    with pytest.raises(InvalidArgumentError, match="expected a remedy for a group; transforms form no group"):
        report.remedy("average")
    assert "loudness 0.5" in report.html()


def test_what_is_invariant_to_a_transform_is_said_to_be_and_a_tolerance_is_kept() -> None:
    gain = Transform(np.multiply, [0.5, 1.5])
    signs = lambda s: (s > 0).mean(1)
    assert verdict(signs, gain, SERIES) == "equivariant"
    small = lambda s: np.stack([signs(s), 1e-3 * np.abs(s).mean(1)], 1)
    assert verdict(small, gain, SERIES) == "broken"
    report = et.audit(small, gain, SERIES, tolerance=0.1, **QUIET)
    assert (report.verdict, [e.above for e in report.elements]) == ("equivariant within tolerance", [False, False])
    shorter = et.audit(
        lambda x: x.mean(1), Transform(lambda x, s: x[:, :: int(s)], [2, 3], name="speed"), SERIES, **QUIET
    )
    assert [len(point.inputs["x"]) for point in shorter.witness.orbit] == [len(SERIES[0, ::s]) for s in (1, 2, 3)]
    along = lambda axis: Transform(lambda x, s: np.roll(x, int(s), axis), [1, 2])
    alone = et.audit(lambda s: s[:, :4], along(1), SERIES, **QUIET)
    by_steps = et.audit(lambda s: s[:4].T, along(0), Batch(SERIES.T, axis=1), **QUIET)
    np.testing.assert_array_equal(by_steps.errors, alone.errors)


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
