"""Studies of outputs that move: kernels of moved inputs, augmentation, factors, data, and claims that can fail."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents_studies.moving_outputs import study, tasks
from equitangents_studies.moving_outputs.kernels import moved_block, moved_kernels, moved_targets
from equitangents_studies.moving_outputs.study import MODELS, SETS, Learning, deviations, over_time
from equitangents_studies.moving_outputs.tasks import (
    PLAIN,
    RIGHT,
    VISCOSITY,
    WRONG,
    MovingSettings,
    MovingTask,
    flow_symmetries,
    flows,
    mask_symmetries,
    plane_symmetries,
    scenes,
    velocity,
    waves,
)
from studies.small import follow

TIMES = (0.5, 30.0, np.inf)


def patches(a, b):
    """An equivariant kernel on pairs of positions without a network: exp of the products of 3×3 neighbourhoods."""
    windows = lambda x: np.stack([np.roll(x, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=-2).reshape(
        len(x), x.shape[1] * x.shape[2], 9, x.shape[-1]
    )
    p, q = windows(a), windows(b)
    return np.exp(np.einsum("npuc,mquc->npmq", p, q) / (9 * a.shape[-1]))


def whole(a, b):
    """A kernel of whole inputs that every orthogonal map of both leaves as it is: exp of minus their distance."""
    a, b = (z.reshape(len(z), -1) for z in (a, b))
    return np.exp(-np.linalg.norm(a[:, None] - b, axis=-1))[:, None, :, None]


def problem(kernel, symmetry, positions, sets=None):
    """What the networks of one kernel with one symmetry learn from two inputs; those off the data are test inputs."""
    foreign = None if sets is None else sets[2]
    return MovingTask(
        settings=MovingSettings(few=2, units=TIMES), kernel=kernel, symmetries={RIGHT: symmetry}, positions=positions,
        draw=lambda k: sets, foreign=foreign, scores={}, net=None,
    )  # fmt: skip


def cases():
    quarter, plane = mask_symmetries()[RIGHT], plane_symmetries(4)[RIGHT]
    moved, subgroup = (flow_symmetries()[name] for name in (RIGHT, "subgroup"))
    return {
        "masks": (patches, quarter, (3, 3), (3, 3, 1), (3, 3, 1)),
        "vectors": (patches, moved, (3, 3), (3, 3, 2), (3, 3, 2)),
        "vectors, C2": (patches, subgroup, (3, 3), (3, 3, 2), (3, 3, 2)),
        "signals on C4": (whole, plane, (), (2, 4, 1), (4,)),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_moved_kernels_are_products_with_the_matrices_of_the_action(name, rng):
    kernel, symmetry, positions, shape, target = CASES[name]
    x, other = rng.normal(size=(2, *shape)), rng.normal(size=(3, *shape))
    basis = np.eye(int(np.prod(target))).reshape(-1, *target)
    expected = 0
    for g in symmetry.chosen:
        rho = np.asarray(symmetry.outputs(g, basis)).reshape(len(basis), -1).T
        k = kernel(x, np.asarray(symmetry.inputs(g, other)))
        wide = np.einsum("npmq,ij->npimqj", k, np.eye(symmetry.fibre)).reshape(2, len(rho), 3, len(rho))
        expected = expected + np.einsum("napb,bc->napc", wide, rho) / len(symmetry.chosen)
    found = moved_kernels(kernel, {"": symmetry}, x, other, positions)[""]
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_augmented_and_equivariant_means_agree_at_every_time(name, rng):
    kernel, symmetry, positions, shape, target = CASES[name]
    x, test, y = rng.normal(size=(2, *shape)), rng.normal(size=(2, *shape)), rng.normal(size=(2, *target))
    p = problem(kernel, symmetry, positions, (x, y, test, y))
    found = over_time(p)
    assert not found["difference"].max() > 1e-9
    assert not found["error_augmented"].max() > 1e-9
    assert not found["error_equivariant"].max() > 1e-9
    assert found["error_plain"].min() > 0.01


def test_what_the_wrong_group_leaves_alone_does_not_move(rng):
    symmetry = flow_symmetries()[WRONG]
    block = patches(*rng.normal(size=(2, 2, 3, 3, 2)))
    moved = moved_block(block, symmetry, 1, (3, 3)).reshape(block.shape)
    rotated = np.rot90(block.reshape(2, 9, 2, 3, 3), -1, axes=(3, 4)).reshape(block.shape)
    np.testing.assert_array_equal(moved, rotated)


N = (2, 4, 8, 16)


def curve(factor, seed=0, draws=6):
    """Errors about 1/(factor·n)."""
    return np.exp(0.01 * np.random.default_rng(seed).normal(size=(draws, 4))) / (factor * np.array(N))


def time_claims(learning, noun):
    return study.time_claims(learning, TIMES)


class TestClaims:
    def learning(self, right=3.0, wrong=0.6, difference=1e-13, moved=1e-13, plain=0.5):
        all_of = lambda value: np.full((len(SETS), len(TIMES)), value)
        size = dict(zip(MODELS, (moved, moved, plain), strict=True))
        return Learning(
            sizes=N,
            titles={PLAIN: "nothing built in", RIGHT: "C4", WRONG: "wrong"},
            scores={"squared": {PLAIN: curve(1, 0), RIGHT: curve(right, 1), WRONG: curve(wrong, 2)}},
            errors={model: all_of(size[model]) for model in MODELS},
            difference=all_of(difference),
            trained={},
        )

    def test_a_curve_of_a_third_of_the_errors_saves_a_factor_of_three(self):
        found = self.learning(right=3.0).saved(RIGHT)
        assert 2.8 < found.low < 3 < found.high < 3.2
        assert self.learning(right=0.5).saved(RIGHT).high < 0.6, "a worse curve"
        few = dataclasses.replace(self.learning(), scores={"squared": {PLAIN: curve(1, 0, 3), RIGHT: curve(3, 1, 3)}})
        assert not few.saved(RIGHT).has_interval

    @pytest.mark.parametrize(("of", "change", "expected"), [
        (study.saving_claims, {}, ["holds", "holds"]),
        (study.saving_claims, {"right": 0.5, "wrong": 2.0}, ["fails", "fails"]), (time_claims, {}, ["holds"] * 3),
        (time_claims, {"difference": 1e-3}, {0: "fails"}), (time_claims, {"moved": 1e-3}, {1: "fails"}),
        (time_claims, {"plain": 1e-4}, {2: "fails"}), (time_claims, {"difference": np.nan}, {0: "undecided"}),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, of, change, expected):
        follow(of(self.learning(**change), "images"), expected)


class TestTrained:
    SYMMETRY = flow_symmetries()[RIGHT]

    @pytest.mark.parametrize(
        ("bias", "members", "verdict"), [(0.0, 40, "holds"), (1.0, 40, "fails"), (0.0, 5, "undecided")]
    )
    def test_the_claim_is_on_the_mean_and_free_of_the_bias_of_few_networks(self, bias, members, verdict):
        outputs = np.random.default_rng(1).normal(size=(1, members, 200)) + bias
        follow([study.trained_claim(MovingSettings(steps=(5,)), dict.fromkeys(SETS, outputs), "flows")], [verdict])

    def test_networks_that_move_their_outputs_have_no_deviation(self, rng):
        f = rng.normal(size=(2, 3, 2, 3, 3, 2))  # steps, members, inputs, fields
        copies = np.stack([[moved_targets(self.SYMMETRY, member, (3, 3)) for member in step] for step in f])
        p = problem(patches, self.SYMMETRY, (3, 3))
        kept = deviations(p, {"few": copies})
        np.testing.assert_allclose(kept["few"], 0, atol=1e-14)


class TestFlows:
    def test_they_solve_the_equations_of_navier_and_stokes(self):
        n, step = 16, 1e-4
        k = waves(5)
        rng = np.random.default_rng(0)
        U, a, phase = rng.normal(size=(1, 2)), rng.normal(size=(1, 4)), rng.normal(size=(1, 4))
        at = lambda t: velocity(U, k, a, phase, n, t)[0]
        freq = 1j * np.stack(np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * 2, indexing="ij"), axis=-1)
        d = lambda f: np.fft.ifft2(np.fft.fft2(f, axes=(0, 1))[..., None] * freq[:, :, None], axes=(0, 1)).real
        u, du = at(0.3), d(at(0.3))
        assert np.abs(np.trace(du, axis1=2, axis2=3)).max() < 1e-12
        change = (at(0.3 + step) - at(0.3 - step)) / (2 * step)
        laplacian = sum(d(du[..., i])[..., i] for i in range(2))
        force = change + np.einsum("xyj,xyij->xyi", u, du) - VISCOSITY * laplacian
        curl = d(force)[:, :, 1, 0] - d(force)[:, :, 0, 1]  # what no pressure can balance
        assert np.abs(curl).max() < 1e-4 * np.abs(d(change)).max()

    def test_rotated_flows_are_flows_of_the_same_law(self):
        quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
        before, after = flows(2, MovingSettings(pixels=6, waves=1, time=0.5), (0,))
        rotate = flow_symmetries()[RIGHT].inputs
        rotate.verify(before)
        spectrum = lambda z: np.abs(np.fft.fft2(z, axes=(1, 2))) ** 2
        rotated = np.asarray(rotate(1, before))
        np.testing.assert_allclose(rotated.mean(axis=(1, 2)), before.mean(axis=(1, 2)) @ quarter.T, atol=1e-12)
        kept = spectrum(rotated)[:, 2:-1, 2:-1]  # waves of length 1 stay waves of length 1
        assert np.abs(kept).max() < 1e-20
        assert np.abs(np.fft.ifft2(np.fft.fft2(rotated, axes=(1, 2)), axes=(1, 2)).imag).max() < 1e-12
        assert tasks.divergence(np.asarray(rotate(1, after - before)), rotated) < 1e-12

    def test_a_gradient_has_divergence_and_a_stream_has_none(self):
        i, j = np.indices((8, 8)) * 2 * np.pi / 8
        gradient = np.stack([np.cos(i + j), np.cos(i + j)], axis=-1)[None]
        assert tasks.divergence(gradient, gradient) == pytest.approx(1)


class TestScenes:
    def test_masks_hold_what_is_bright_and_the_seed_says_all(self):
        x, masks = scenes(20, 12, (3, 1))
        again, _ = scenes(20, 12, (3, 1))
        np.testing.assert_array_equal(x, again)
        assert x.shape == masks.shape == (20, 12, 12, 1)
        assert set(np.unique(masks)) == {0.0, 1.0}
        assert 0.05 < masks.mean() < 0.6
        assert x[masks == 1].mean() > x[masks == 0].mean() + 0.5

    def test_dice_scores_are_those_of_the_definition(self):
        target = np.array([1.0, 1.0, -1.0, -1.0])
        assert tasks.dice(np.array([2.0, -1.0, 0.5, -3.0]), target) == 0.5
        assert tasks.dice(-np.ones(4), -np.ones(4)) == 1


class TestOrientations:
    def test_elements_of_rotated_images_rotate_with_them(self):
        settings = MovingSettings(task="rotations", order=4, angles=8, rings=2, sizes=(2, 4), test=2)
        x, y, _, _ = tasks.plane_draw(settings, None, 0)
        symmetry = plane_symmetries(4)[RIGHT]
        moved = np.asarray(symmetry.outputs(1, y))
        assert (moved.argmax(axis=1) == (y.argmax(axis=1) + 1) % 4).all()
        assert symmetry.inputs.group.order == 4
        assert x.shape == (4, 2, 8, 1)


@pytest.mark.parametrize(("changes", "said"), [
    ({"sizes": (4, 2)}, "increasing"), ({"few": 40}, "few"), ({"task": "flows", "waves": 3}, "sum of two squares"),
    ({"task": "flows", "pixels": 4}, "resolves"), ({"task": "rotations", "angles": 12}, "multiple of the order"),
    ({"task": "rotations", "order": 5, "angles": 15}, "even"), ({"task": "rotations", "data": "nothing"}, "data"),
    ({"task": "rotations", "sizes": (4, 2000)}, "at most"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(changes, said):
    with pytest.raises(InvalidArgumentError, match=said):
        tasks.check_settings(MovingSettings(**changes), None)


def test_images_of_rotations_may_all_be_used(monkeypatch):
    monkeypatch.setattr(tasks, "upright", lambda name, data_dir: np.zeros((10, 4, 4, 1)))
    settings = MovingSettings(task="rotations", sizes=(2, 4), test=6, few=1, trained=2)
    tasks.check_settings(settings, None)
    with pytest.raises(InvalidArgumentError, match="at most 10"):
        tasks.check_settings(dataclasses.replace(settings, test=7), None)
