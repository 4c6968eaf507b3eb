"""Leaving one sample out is training without it, to rounding, whatever the kernel, augmentation, labels and time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensembles.fields.patch_kernels import PatchKernels
from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError, NotFittedError
from oracles.literal_network import LiteralNetwork

mlp, patches = LiteralNetwork.relu_mlp(1), PatchKernels()
turns = actions.image_rotations(4)
cube = actions.rotations(groups.octahedral())
five_classes = actions.labels(
    groups.cyclic(4), np.array([[(c + g) % 4 if c < 4 else 4 for c in range(5)] for g in range(4)])
)
TIMES = (0.0, 0.3, 30.0, np.inf)
TIMES_AND_RIDGES = ((0.3, 0.0), (30.0, 0.1), (np.inf, 0.0), (np.inf, 0.1))
S3 = groups.symmetric(3)
PLANE = S3.irreps("real")[2]
permute = actions.permutations(S3, S3.table)
rotating = nn.Sequential(nn.Lift(permute, 8, W_std=1.3, b_std=0.2), nn.Relu(), nn.Readout(PLANE, b_std=0.3))
window = {"padding": "circular", "b_std": 0.3}
field = nn.Sequential(nn.Conv(4, (3, 3), **window), nn.Relu(), nn.Conv(1, (1, 1)))
pooled = nn.Sequential(nn.Conv(4, (3, 3), **window), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))


def refits(model, x, y):
    """Predictions at each sample of N ensembles, each trained without it."""
    found = []
    for i in range(len(x)):
        kept, how = np.delete(np.arange(len(x)), i), model.get_params(deep=False)
        alone = type(model)(**how).fit(x[kept], y[kept])
        found.append(alone.predict(x[i : i + 1])[0])
    return np.stack(found)


def check(model, x, y, atol=1e-8):
    found = model.fit(x, y).leave_one_out_
    expected = refits(model, x, y)
    np.testing.assert_allclose(found.predictions, expected, atol=atol * np.abs(y).max())
    np.testing.assert_allclose(found.residuals, y - found.predictions, atol=1e-14)
    assert found.squared_errors.shape == (len(x),)
    np.testing.assert_allclose(found.mean_squared_error, np.mean((y - expected) ** 2), rtol=1e-6)
    assert found.time == model.time


@pytest.mark.quick(1)
@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), time=st.sampled_from(TIMES), ridge=st.sampled_from([0.0, 1e-3, 1.0]))
def test_without_augmentation(kernel, seed, time, ridge):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(6, 7)), rng.normal(size=(6, 2))
    check(InfiniteEnsemble(mlp, kernel=kernel, time=time, ridge=ridge, learning_rate=0.7), x, y)


def cases():
    """(name, model, x, y)."""
    rng = np.random.default_rng(0)
    x, y, images = rng.normal(size=(8, 3)), rng.normal(size=(8, 5)), rng.normal(size=(5, 3, 3, 1))
    fields, sets = rng.normal(size=(3, 3, 3, 2)), rng.normal(size=(4, 6, 2))
    sizes, again = x * np.logspace(-1, 1, 8)[:, None], [0, 1, 2, 3, 4, 1, 3, 3]
    for time in TIMES:  # each left-out sample changes the mean diagonal
        yield "one output, samples of any size", InfiniteEnsemble(mlp, time=time, ridge=0.05), sizes, y[:, 0]
    yield "infinitely many steps", InfiniteEnsemble(mlp, dynamics="discrete", learning_rate=0.1), x[:5], y[:5, 0]
    for rate in (1e-9, 1e-3, 1e3, 1e9):
        yield "very different rates", InfiniteEnsemble(mlp, time=1.0, learning_rate=rate), x, y[:, 0]
    for time, ridge in TIMES_AND_RIDGES:
        how = {"time": time, "ridge": ridge}
        yield "equal samples", InfiniteEnsemble(mlp, **how), x[again], y[again, :2]
        yield "invariant labels", InfiniteEnsemble(mlp, augmentation=turns, **how), images, y[:5, 0]
        moving = InfiniteEnsemble(mlp, augmentation=turns, label_action=five_classes, **how)
        yield "labels that move", moving, images[:3], y[:3]
    special = np.array([[0.0, 0.0, 1.3], [1.0, 1.0, 1.0], [0.2, 0.5, -1.0], [0.5, -0.2, -1.0], [1.1, 0.0, 0.0]])
    agreeing = special / np.linalg.norm(special, axis=1, keepdims=True) ** 2
    for time, labels in ((0.3, agreeing), (np.inf, agreeing)):
        model = InfiniteEnsemble(mlp, augmentation=cube, label_action=cube, time=time, ridge=1e-3)
        yield "inputs that something fixes and that share an orbit", model, special, labels
    some, equal, labels = actions.subset(turns, [1, 0, 2], [1.0, 2.0, 0.5]), images[:4].copy(), y[:4, :2].copy()
    equal[2], equal[3], labels[3] = equal[2, :1, :1], np.rot90(equal[1], 1), labels[1]
    fields_twice, targets_twice = images[[0, 1, 2, 0]], fields[[0, 1, 2, 0]]
    moved, moved_targets = images[:3].copy(), fields.copy()
    moved[1], moved_targets[1] = turns(1, moved[:1])[0], turns(1, moved_targets[:1])[0]
    for time in (0.3, np.inf):
        how = {"time": time, "ridge": 0.05}
        yield "some weighted elements", InfiniteEnsemble(mlp, augmentation=some, **how), equal, labels
        yield "a field twice", InfiniteEnsemble(patches, **how), fields_twice, targets_twice
        yield "a field and its copy", InfiniteEnsemble(patches, augmentation=turns, **how), moved, moved_targets
    for elements in ([0, 2], [2, 0], [3, 2, 0, 1]):  # whichever comes first
        for net, targets in ((field, fields[..., 0]), (pooled, y[:3, 0])):
            some = actions.subset(turns, elements)
            yield "elements in any order", InfiniteEnsemble(net, some, ridge=0.1), images[:3], targets
    for how in ({"time": 2.0}, {"ridge": 0.1}, {"augmentation": permute, "ridge": 0.1, "time": 2.0}):
        yield "outputs that transform", InfiniteEnsemble(rotating, **how), sets, y[:4, :2]
    turning = {"augmentation": permute, "label_action": actions.represented(S3, PLANE), "ridge": 0.1, "time": 2.0}
    yield "outputs and labels that transform", InfiniteEnsemble(rotating, **turning), sets, y[:4, :2]


@pytest.mark.parametrize(("model", "x", "y"), [pytest.param(*case, id=name) for name, *case in cases()])
def test_leaving_a_sample_out_with_all_its_copies_is_training_without_it(model, x, y):
    check(model, x, y, atol=1e-7)


def standardised(n=12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    x[0] *= 8
    return x, rng.normal(size=n)


@pytest.mark.parametrize("standardise", [False, True])
def test_inputs_stay_in_the_units_of_all_samples(standardise):
    x, y = standardised()
    net = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(1, b_std=0.2))
    model = InfiniteEnsemble(net, ridge=0.2, standardise=standardise).fit(x, y)
    found, exact = model.leave_one_out_, refits(model, x, y)
    difference = np.abs(found.predictions - exact).max() / np.abs(exact).max()
    assert difference > 0.01 if standardise else difference < 1e-8
    tuned = InfiniteEnsemble(net, standardise=standardise).tune({"ridge": [0.1, 0.2]}, x, y)
    assert found.standardised_by == tuned.standardised_by == ("all samples" if standardise else "nothing")


class TestClassifiers:
    @pytest.mark.parametrize("how", [{"time": 1.0}, {}])
    def test_labels_are_those_of_classifiers_trained_without_the_sample(self, how, rng):
        x = rng.normal(size=(9, 3))
        labels = np.array(["no", "yes", "no", "maybe", "yes", "no", "maybe", "yes", "maybe"])
        model = InfiniteEnsembleClassifier(mlp, ridge=0.1, **how).fit(x, labels)
        found = model.leave_one_out_
        expected = refits(model, x, labels)
        assert found.predictions.tolist() == expected.tolist()
        assert found.labels.tolist() == labels.tolist()
        assert found.accuracy == np.mean(expected == labels)
        assert found.outputs.residuals.shape == (9, 3)

    def test_a_label_field_is_left_out_whole(self, rng):
        x = rng.normal(size=(5, 3, 3, 1))
        y = np.array(["cell", "ground", "membrane"])[np.digitize(x[..., 0], (-0.4, 0.5))]
        model = InfiniteEnsembleClassifier(patches, ridge=0.1).fit(x, y)
        found = model.leave_one_out_
        np.testing.assert_array_equal(found.predictions, refits(model, x, y))
        np.testing.assert_array_equal(found.labels, y)
        assert found.accuracy == (found.predictions == y).mean()


SQUARE = actions.image_dihedral(4)
SIGNS = actions.linear(turns.group, [np.eye(1) * (-1) ** g for g in range(4)])
MOVING = actions.tensor_product(SQUARE, actions.channels(SQUARE.group, SQUARE.group.irreps("real")[-1].matrices))


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (InfiniteEnsemble(mlp, dynamics="discrete", time=3, learning_rate=0.1), 4, "time is 3.*leaving samples out"),
        (
            InfiniteEnsemble(mlp, augmentation=actions.subset(turns, [1, 2]), ridge=0.1),
            4,
            "expected one with the identity",
        ),
        (InfiniteEnsemble(mlp), 1, "expected at least 2 samples"),
        (
            InfiniteEnsemble(mlp, turns, time=1.0, label_action=SIGNS),
            "fixed",
            "one label where augmented inputs are equal",
        ),
        (InfiniteEnsemble(mlp, ridge=[0.1, 0.2, 0.3, 0.4]), 4, "ridge has .*; expected one number; leaving"),
        (
            InfiniteEnsemble(patches, SQUARE, label_action=MOVING),
            (4, 3, 3, 2),
            "solver is .*irreps.* for leaving fields",
        ),
    ],
)
def test_what_has_no_closed_form_is_refused(model, y, message, rng):
    y, fixed = rng.normal(size=(4, 1) if y == "fixed" else y), y == "fixed"
    with pytest.raises(NotFittedError, match="call fit first"):
        _ = model.leave_one_out_
    with pytest.raises(InvalidArgumentError, match=message):
        _ = model.fit(np.ones((4, 3, 3, 1)) if fixed else rng.normal(size=(len(y), 3, 3, 1)), y).leave_one_out_
