"""What an audit is told about groups, inputs and layouts: understood, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import equitangents as et
from audit.verdict_cases import QUIET
from equitangents.audit import Shared
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, NotFiniteError, ShapeError

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(12, 6, 6, 2))
CLOUDS = RNG.normal(size=(12, 7, 3))


def pooled(x: np.ndarray) -> np.ndarray:
    return np.tanh(x).sum((1, 2))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("group", "x", "order"),
    [
        ("C4", IMAGES, 4), ("D4", IMAGES, 8), ("C2", IMAGES, 2), ("translations", IMAGES, 36), ("SO(3)", CLOUDS, None),
        ("O3", CLOUDS, None), ("octahedral", CLOUDS, 24), ("S_n", CLOUDS, None), ("S3", CLOUDS[:, :3], 6),
        ("SO2", CLOUDS[..., :2], None), ("C5", CLOUDS[..., :2], 5),
    ],
)  # fmt: skip
def test_groups_by_name(group: str, x: np.ndarray, order: int | None) -> None:
    report = et.audit(lambda x: (x**2).sum(tuple(range(1, x.ndim))), group, x, elements=8, **QUIET)
    assert report.contract.order == order
    assert report.verdict in ("equivariant", "undecided")  # noise images resample too badly to say
    broken = et.audit(lambda x: np.tanh(x).reshape(len(x), -1)[:, 1] + 3, group, x, elements=8, **QUIET)
    assert broken.verdict == "broken"


def test_layouts_are_two_views_of_one_thing() -> None:
    w, first = RNG.normal(size=(6, 6, 2)), IMAGES.transpose(0, 3, 1, 2)
    last = et.audit(lambda x: np.tanh((x * w).sum((1, 2))), "C4", IMAGES, **QUIET)
    f = lambda x: np.tanh((x * w.transpose(2, 0, 1)).sum((2, 3)))
    moved = et.audit(f, "C4", first, layout="channels_first", **QUIET)
    np.testing.assert_allclose(moved.errors, last.errors, rtol=1e-10)
    assert (last.contract.layout, moved.contract.layout) == ("channels_last", "channels_first")


def test_a_broken_action_is_refused_with_its_witness() -> None:
    C3, C4 = et.groups.cyclic(3), et.groups.cyclic(4)
    shift = et.actions.from_function(C3, lambda g, x: np.roll(x, 1 if g else 0, axis=1), name="one step for all")
    with pytest.raises(NotAnActionError, match=r"one step for all at \('1', '1'\) is off by .*; it moves x"):
        et.audit(pooled, shift, IMAGES, **QUIET)
    grows = et.actions.from_function(C4, lambda g, x: x * (1 + g), name="grows")
    with pytest.raises(NotAnActionError, match="grows"):  # the first inputs are blank
        et.audit(lambda x: (x > 0).sum((1, 2)) * 1.0, grows, np.concatenate([0 * IMAGES[:3], IMAGES]), **QUIET)
    tilt, x = et.actions.image_rotations(7), RNG.normal(size=(4, 16, 16, 1))
    sevenths = lambda n: et.actions.from_function(
        et.groups.cyclic(n), lambda g, x: tilt(g % 7, x), exact=False, name="a seventh"
    )
    with pytest.raises(NotAnActionError, match="a seventh"):
        et.audit(lambda x: x.sum((1, 2)), sevenths(8), x, **QUIET)
    assert et.audit(lambda x: x.sum((1, 2)), sevenths(7), x, **QUIET).contract.order == 7


def test_inputs_that_do_not_move() -> None:
    mask = (RNG.random((12, 7)) > 0.3).astype(float)
    centre = lambda p, m: (p * m[..., None]).sum(1) / m.sum(1, keepdims=True)
    report = et.audit(centre, "SO3", (CLOUDS, mask), "vectors", inputs=("vectors", None), elements=12, **QUIET)
    assert report.verdict == "equivariant"
    assert [i.action for i in report.contract.inputs] == ["vectors of space", "none"]
    assert [i.name for i in report.contract.inputs] == ["x[0]", "x[1]"]
    moved = et.audit(centre, "S_n", (CLOUDS, mask), inputs=("points", None), **QUIET)
    assert moved.verdict == "broken", "the mask must be permuted with the points"
    assert et.audit(centre, "S_n", (CLOUDS, mask), inputs=("points", "points"), **QUIET).verdict == "equivariant"
    with pytest.raises(InvalidArgumentError, match="several inputs"):
        et.audit(centre, "SO3", (CLOUDS, mask), **QUIET)


def test_a_function_of_the_element_may_be_an_action() -> None:
    tensors = CLOUDS[:, :3]
    traces = lambda x: np.stack([np.trace(x, axis1=1, axis2=2), (x**2).sum((1, 2))], axis=1)
    conjugate = et.audit.Custom(lambda R, x: R @ x @ R.T, name="tensors")
    assert et.audit(traces, "SO3", tensors, inputs=conjugate, elements=12, **QUIET).verdict == "equivariant"
    squares = et.audit(lambda x: x @ x, "SO3", tensors, conjugate, inputs=conjugate, elements=12, **QUIET)
    assert (squares.verdict, squares.contract.outputs[0].action) == ("equivariant", "tensors")
    wrong = et.audit.Custom(lambda R, x: R.T @ x @ R, name="the other way round")
    with pytest.raises(NotAnActionError, match="the other way round"):
        et.audit(traces, "SO3", tensors, inputs=wrong, **QUIET)
    with pytest.raises(ShapeError, match="keep the shape"):
        et.audit(traces, "SO3", tensors, inputs=et.audit.Custom(lambda R, x: x[:1]), **QUIET)


def test_an_input_that_all_batches_share() -> None:
    pairs = np.array([[0, 1], [2, 3]])
    f = lambda p, e: np.linalg.norm(p[:, e[:, 0]] - p[:, e[:, 1]], axis=-1)
    report = et.audit(f, "SO3", (CLOUDS, Shared(pairs)), inputs=("vectors", None), batch_size=5, elements=12, **QUIET)
    assert report.verdict == "equivariant"
    with pytest.raises(ShapeError, match="Shared"):
        et.audit(f, "SO3", (CLOUDS, pairs), inputs=("vectors", None), **QUIET)
    f = lambda p, w: np.abs(p @ w).sum((1, 2))
    mended = et.audit(f, "octahedral", (CLOUDS, Shared(CLOUDS[0, :3])), inputs=("vectors", None), **QUIET).remedy()
    expected = np.mean([f(CLOUDS @ R.T, CLOUDS[0, :3]) for R in et.groups.octahedral().matrices], axis=0)
    np.testing.assert_allclose(mended(CLOUDS, CLOUDS[0, :3]), expected)


def test_trees_in_and_out() -> None:
    def f(x: dict) -> dict:
        total = x["positions"].sum(1)
        return {"energy": (total**2).sum(-1) + x["charge"], "dipole": total}

    x = {"positions": CLOUDS, "charge": RNG.normal(size=12)}
    outputs = {"energy": None, "dipole": "vectors"}
    kinds = {"positions": "vectors", "charge": None}
    report = et.audit(f, "SO3", x, outputs, inputs=kinds, elements=12, **QUIET)
    assert report.verdict == "equivariant"
    assert [o.action for o in report.contract.outputs] == ["vectors of space", "invariant"]
    invariant = et.audit(f, "SO3", x, inputs=kinds, elements=12, **QUIET)
    errors = [o.error.mean for o in invariant.contract.outputs]
    assert errors[0] > 0.1 > 1e-6 > errors[1], "the dipole is not invariant, the energy is"


@pytest.mark.slow
def test_pseudovectors_and_matrices() -> None:
    pair = (CLOUDS[:, 0], CLOUDS[:, 1])
    cross = lambda a, b: np.cross(a, b)
    kinds = {"inputs": ("vectors", "vectors"), "elements": 12, **QUIET}
    assert et.audit(cross, "O3", pair, "pseudovectors", **kinds).verdict == "equivariant"
    assert et.audit(cross, "O3", pair, "vectors", **kinds).verdict == "broken"
    outer = lambda a, b: a[:, :, None] * b[:, None, :]
    assert et.audit(outer, "O3", pair, "matrices", **kinds).verdict == "equivariant"


LABELLED = LogisticRegression().fit(IMAGES.reshape(12, -1), np.arange(12) % 3 + 5)
CLASSES = np.eye(2, dtype=int)
ROTATED = et.actions.image_rotations(4)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        *(({"action": name}, InvalidArgumentError, "group") for name in ("C", "C0", "Q8", "SO4", "S", "", "c4", "x")),
        ({"action": "C1"}, InvalidArgumentError, "other elements than the identity"),
        ({"f": 3}, InvalidTypeError, "f is of type int; expected"),
        ({"action": 3}, InvalidTypeError, "action is 3"),
        ({"x": np.full((3, 4, 4, 1), np.nan)}, NotFiniteError, "NaN"),
        ({"x": "images"}, InvalidTypeError, "x has dtype"),
        ({"x": np.zeros((0, 4, 4, 1))}, ShapeError, "at least one input"),
        ({"x": np.zeros((5, 8, 4, 1))}, ShapeError, r"8×4|4×8|square"),
        ({"y": np.zeros(3)}, ShapeError, "y has shape"),
        ({"f": LABELLED, "y": np.arange(12) % 3}, InvalidArgumentError, "classes, 5, 6, 7"),
        ({"elements": 0}, InvalidArgumentError, "elements is 0"),
        ({"batch_size": 2.5}, InvalidArgumentError, "batch_size is 2.5"),
        ({"confidence": 2}, InvalidArgumentError, "confidence is 2"),
        ({"effort": "low"}, InvalidArgumentError, "effort is 'low'"),
        ({"layout": "NCHW"}, InvalidArgumentError, "layout is 'NCHW'"),
        ({"outputs": "classes"}, InvalidArgumentError, "outputs is 'classes'"),
        ({"select": 1.5}, InvalidTypeError, r"select is 1\.5; expected the name"),
        ({"off_data": "noise"}, InvalidTypeError, "off_data"),
        ({"relative_to": "mean"}, InvalidArgumentError, "relative_to is 'mean'"),
        ({"tolerance": 0}, InvalidArgumentError, "tolerance is 0"),
        ({"tolerance": float("nan")}, InvalidArgumentError, "tolerance is nan"),
        ({"tolerance": "1 %"}, InvalidTypeError, "tolerance is '1 %'"),
        ({"output_scale": -1.0}, InvalidArgumentError, "output_scale is -1.0"),
        ({"output_scale": {"energy": "1"}}, InvalidTypeError, r"output_scale\['energy'\] is '1'"),
        ({"output_scale": {"forces": 1.0}}, InvalidArgumentError, r"names \['forces'\]; expected 'f\(x\)'"),
        ({"f": lambda x: np.arange(len(x)), "output_scale": {"f(x)": 1}}, InvalidArgumentError, "have no size"),
        ({"output_action": 4}, InvalidTypeError, "output_action is 4"),
        *(({"f": f, "output_action": given}, InvalidTypeError, "output_action has the structure .* one entry for each")
          for f, given in ((lambda x: (x, x), "images"), (lambda x: x, ("images", None)))),
        ({"output_action": "points"}, InvalidArgumentError, "kind is 'points'; expected 'images'"),
        ({"x": CLOUDS, "action": "SO3", "output_action": "4x9q"}, InvalidArgumentError, "is '4x9q'; expected"),
        ({"f": lambda x: x, "action": ROTATED, "output_action": et.actions.image_dihedral(2)}, InvalidArgumentError,
         "give actions of one group"),
        ({"f": lambda a, b: a + b, "action": (ROTATED, et.actions.image_dihedral(2)), "x": (IMAGES, IMAGES)},
         InvalidArgumentError, "give actions of one group"),
        ({"f": lambda h, e: h, "action": "S_n", "x": (CLOUDS, Shared(CLASSES)), "inputs": ("points", "edges")},
         InvalidArgumentError, r"x\[1\] is 'Shared'"),
        ({"f": lambda x: x.sum()}, ShapeError, "one row an input"),
        ({"f": lambda x: np.array(["cat"] * len(x))}, ShapeError, "scores, not names"),
        ({"f": lambda x: np.full(len(x), np.inf)}, NotFiniteError, "infinite"),
        ({"f": lambda x: np.where(np.arange(24).reshape(12, 2) == 7, np.nan, 1.0)}, NotFiniteError,
         r"f\(x\) holds NaN .* at index \(3, 1\)"),
        ({"f": lambda x: pooled(x) * 1e200}, NotFiniteError, "whose squares"),
        ({"x": (np.arange(64).reshape(4, 4, 4, 1) % 7), "action": "C8"}, InvalidTypeError, "real numbers"),
        ({"f": lambda x: np.zeros((len(x), 0))}, ShapeError, "at least one number an input"),
        ({"f": et.nn.Sequential(et.nn.Dense(2))}, InvalidTypeError, r"expected \(net, params\)"),
        ({"tolerence": 0.01}, InvalidTypeError, r"audit has no argument 'tolerence'; .*did you mean 'tolerance'"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments: dict, error: type, said: str) -> None:
    given = {"f": pooled, "action": "C4", "x": IMAGES, "resamples": 50, **arguments}
    with pytest.raises(error, match=said):
        et.audit(given.pop("f"), given.pop("action"), given.pop("x"), **given)


def test_the_same_seed_gives_the_same_report() -> None:
    def run(seed: int) -> dict:
        report = et.audit(pooled, "SO3", CLOUDS, elements=6, seed=seed, resamples=100).to_dict()
        return {key: value for key, value in report.items() if key != "timing"}

    assert run(3) == run(3)
    assert run(3)["elements"] != run(4)["elements"]


def test_masked_turns_start_from_the_masked_image() -> None:
    rot = et.actions.image_rotations(4, mask="circle")
    total = lambda x: x.sum((1, 2)) ** 2
    fields = et.actions.tensor_product(rot, et.actions.channels(rot.group, [np.eye(IMAGES.shape[-1])] * 4))
    for action in (rot, fields, et.actions.restrict(rot, rot.group.subgroup([0, 2]))):
        report = et.audit(total, action, IMAGES + 1, **{**QUIET, "off_data": True})
        assert np.max([report.error.worst, *(s.judged.mean for s in report.sets)]) < 1e-12


def test_elements_of_a_subgroup_are_named_and_move_as_in_the_group() -> None:
    C16, total = et.actions.image_rotations(16, order=1), lambda x: x.sum((1, 2)) ** 2
    report = lambda action: et.audit(total, action, IMAGES, **QUIET)
    of = lambda action: [(e.label, e.exact, round(e.floor, 9)) for e in report(action).elements]
    fields = et.actions.tensor_product(C16, et.actions.channels(C16.group, [np.eye(IMAGES.shape[-1])] * 16))
    half, expected = C16.group.subgroup(range(0, 16, 2)), of(et.actions.image_rotations(8, order=1))
    assert all(of(et.actions.restrict(action, half)) == expected for action in (C16, fields))


def test_whichever_way_it_is_imported_it_can_be_called() -> None:
    import equitangents.audit
    from equitangents.audit import audit, run

    assert audit is run.audit
    assert callable(equitangents.audit)


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        (np.ones((4, 3, 2)), ShapeError, r"off_data\['z'\] has shape \(4, 3, 2\); expected 5"),
        (np.ones((4, 7, 2)), ShapeError, r"off_data\['z'\] has shape"),
        (np.full((4, 5, 2), np.nan), NotFiniteError, r"off_data\['z'\] holds NaN"),
        ((np.ones((4, 5, 2)), np.ones(4)), InvalidTypeError, r"off_data\['z'\] has the structure"),
        (Shared(np.ones((5, 2))), ShapeError, r"off_data\['z'\] is nothing but Shared"),
    ],
)
def test_other_sets_are_such_as_the_group_can_move(x: object, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        et.audit(lambda x: x.sum(1), "S_n", CLOUDS[:, :5, :2], off_data={"z": x}, resamples=50)
