"""Baselines against their formulas written out: orbit averages, rotated filters, canonical images, kernel machines."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import baselines, nn
from equitangents.errors import InvalidArgumentError
from equitangents_studies.baselines import networks
from equitangents_studies.baselines.networks import (
    B_STD,
    LAST_STD,
    W_STD,
    Canonicalised,
    KernelMachine,
    TrainedNetworks,
    cnn,
    count_multiplications,
    count_parameters,
)
from equitangents_studies.baselines.rotated_filters import (
    RotatedFilters,
    ring_functions,
    rotated_filters,
    rotated_rings,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4, 4, 2)).astype(np.float32)


def test_an_orbit_is_averaged_voted_on_for_labels_and_costs_as_many_predictions():
    of = lambda model, classes: baselines.AveragedBaseline(model, baselines.BaselineProblem("C4", X.shape[1:], classes))
    averaged = of(SimpleNamespace(predict=lambda x: x[:, 0, 0], multiplications=7, parameters=5), 2)
    corners = np.array([X[:, i, j] for i in (0, -1) for j in (0, -1)])
    np.testing.assert_allclose(averaged.predict(X), corners.mean(axis=0), rtol=1e-6)
    assert (averaged.multiplications, averaged.parameters) == (28, 5)
    found = of(SimpleNamespace(predict=lambda x: (x[:, 0, 0, 0] > 0) * 1.0), 3).predict(X)
    votes = (corners[..., 0] > 0).mean(axis=0)
    np.testing.assert_array_equal(found, np.stack([1 - votes, votes, 0 * votes], axis=1))


@pytest.mark.parametrize(("answer", "said"), [
    (lambda x: np.full(4, -1), r"labels from, to \(-1.0, -1.0\)"),
    (lambda x: np.full(4, 1.7), "whole labels .* from 0 to 1"),
    (lambda x: np.ones((4, 1)), r"expected scores \(4, 2\)"),
    (lambda x: np.full((4, 2), np.nan), "NaN or infinite numbers"),
])  # fmt: skip
def test_what_is_no_prediction_is_not_averaged(answer, said):
    averaged = baselines.AveragedBaseline(
        SimpleNamespace(predict=answer), baselines.BaselineProblem("C4", X.shape[1:], 2)
    )
    with pytest.raises(InvalidArgumentError, match=f"the baseline that is averaged predicts .*{said}"):
        averaged.predict(X)


class TestTurnedFilters:
    @pytest.mark.slow
    def test_are_the_sums_of_their_formula(self):
        """Lift, means over blocks, one convolution over C4, readout: loops over pixels and elements."""
        net, width = RotatedFilters("C4", 2, 3), 2
        params, found = jax.jit(lambda key: (p := net.init(key, (4, 4, 2)), net.apply(p, X)))(jax.random.key(0))
        lift, convolution, last = ({name: np.asarray(a, float) for name, a in layer.items()} for layer in params)
        turn = lambda w, g: np.rot90(w.reshape(*[int(len(w) ** 0.5)] * 2, *w.shape[1:]), g)

        def correlated(image, kernel):
            padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
            return np.array([[np.einsum("ijc,ijcd->d", padded[r : r + 3, s : s + 3], kernel)
                              for s in range(image.shape[1])] for r in range(image.shape[0])])  # fmt: skip

        relu, expected = lambda z: np.maximum(z, 0), []
        for x in X:
            first = [relu(W_STD * correlated(x, turn(lift["w"], g)) / 18**0.5 + B_STD * lift["b"]) for g in range(4)]
            first = [f.reshape(2, 2, 2, 2, width).mean(axis=(1, 3)) for f in first]
            second = []
            for g in range(4):
                total = sum(correlated(first[(g + k) % 4], turn(convolution["w"][:, k], g)) for k in range(4))
                second.append(relu(W_STD * total / (9 * 4 * width) ** 0.5 + B_STD * convolution["b"]))
            inner = [np.einsum("ijc,ijck->k", second[g], turn(last["w"], g)) for g in range(4)]
            expected.append(LAST_STD * np.mean(inner, axis=0) / (2 * 2 * width) ** 0.5)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("side", [4, 5])
    def test_answer_as_independent_pixels_do(self, side):
        """A constant image gives side² times its square; squares of filters sum to side² at most."""
        found = rotated_rings(side, 8)
        np.testing.assert_allclose((found.sum(axis=1) ** 2).sum(axis=1)[::2], side**2, rtol=1e-10)
        assert (found[0] ** 2).sum() <= side**2 * (1 + 1e-12)


class TestCanonicalisation:
    NET = Canonicalised("C4", *(nn.Sequential(nn.Flatten(), nn.Dense(outputs)) for outputs in (1, 3)))

    def parameters(self):
        return jax.jit(lambda key: self.NET.init(key, X.shape[1:]))(jax.random.key(0))

    def test_the_classifier_sees_the_orientation_of_the_highest_score(self):
        params = self.parameters()
        scorer, classifier = (np.asarray(p[1]["w"]) / 32**0.5 for p in params)
        rotated = np.stack([np.rot90(X, -g, axes=(1, 2)) for g in range(4)]).reshape(4, len(X), 32)
        chosen = rotated[(rotated @ scorer)[..., 0].argmax(axis=0), np.arange(len(X))]
        found = jax.jit(self.NET.apply)(params, X)
        np.testing.assert_allclose(found, chosen @ classifier, rtol=1e-4, atol=1e-5)

    def test_gradients_reach_the_scorer_and_those_of_a_batch_are_the_sum_over_its_images(self):
        gradient = jax.jit(jax.grad(lambda p, x: (self.NET.apply(p, x) ** 2).sum()))
        params = self.parameters()
        whole = gradient(params, X)[0][1]["w"]
        each = [gradient(params, X[i : i + 1])[0][1]["w"] for i in range(len(X))]
        assert np.abs(whole).max() > 0.01
        np.testing.assert_allclose(whole, np.sum(each, axis=0), rtol=1e-3, atol=1e-4)


class TestKernelMachine:
    NET = nn.Sequential(nn.Flatten(), nn.Dense(1), nn.Relu(), nn.Dense(1))
    IMAGES, LABELS = RNG.normal(size=(12, 4, 4, 1)), np.array([0, 3, 1, 0, 3, 1, 1, 3, 2, 2, 2, 2])
    PROBLEM = baselines.BaselineProblem("C4", (4, 4, 1), 4, kernel_images=8)

    def fitted(self, count=12):
        machine = KernelMachine(self.NET, self.PROBLEM, augmented=False)
        return machine.fit(self.IMAGES[:count], self.LABELS[:count])

    def test_knows_the_first_images_alone_and_never_finds_a_class_without_one(self):
        outputs = self.fitted().predict(self.IMAGES)
        np.testing.assert_array_equal(outputs, self.fitted(8).predict(self.IMAGES))
        assert outputs.shape == (12, 4)
        np.testing.assert_array_equal(outputs[:8].argmax(axis=1), self.LABELS[:8])
        assert not (outputs.argmax(axis=1) == 2).any()

    def test_predicts_some_images_at_a_time(self, monkeypatch):
        machine = self.fitted()
        whole = machine.predict(self.IMAGES)
        monkeypatch.setattr(networks, "_ROWS", 5)
        np.testing.assert_allclose(machine.predict(self.IMAGES), whole, rtol=1e-6, atol=1e-7)


def test_probabilities_of_members_sum_to_one_and_are_0_for_classes_without_an_image():
    problem = baselines.BaselineProblem("C4", X.shape[1:], 4)
    networks = TrainedNetworks(nn.Sequential(nn.Flatten(), nn.Dense(4)), problem, members=3)
    logits = RNG.normal(size=(3, 5, 3)) * 4
    networks.ensemble = SimpleNamespace(classes_=np.array([0, 1, 3]), predict_members=lambda x: logits)
    found = networks.predict_members(X)
    np.testing.assert_allclose(found[..., [0, 1, 3]], jax.nn.softmax(logits, axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(found[..., 2], 0)
    assert networks.parameters == 3 * 32 * 4
    assert networks.multiplications == 3 * 32 * 4


def test_rotated_copies_take_no_further_steps():
    problem = baselines.BaselineProblem("C4", X.shape[1:], 2, epochs=3, batch=4)
    flat = X[:, :1, :1] * np.ones((1, 4, 4, 1), np.float32)  # which rotations leave as it is
    trained = lambda augmented: TrainedNetworks(nn.Sequential(nn.Flatten(), nn.Dense(2)), problem, augmented=augmented)
    plain, rotated = (trained(each).fit(flat, np.arange(4) % 2).predict(flat) for each in (False, True))
    np.testing.assert_allclose(rotated, plain, rtol=1e-5)


def test_multiplications_in_loops_are_counted_as_often_as_they_run():
    class Repeated:
        def init(self, key, input_shape, dtype="float32"):
            return jnp.ones((input_shape[0], input_shape[0]), dtype)

        def apply(self, params, x):
            return jax.lax.scan(lambda y, _: (y @ params, None), x, length=5)[0]

    assert count_parameters(Repeated(), (3,)) == 9
    assert count_multiplications(Repeated(), (3,)) == 5 * 9


IMAGES = np.random.default_rng(0).normal(size=(5, 8, 8, 2)).astype(np.float32)


def outputs_on_orbit(net, group, x=IMAGES):
    orbit = baselines.BaselineProblem(group, x.shape[1:], 3).action.orbit(x)
    random = jax.jit(lambda key, x: net.apply(net.init(key, x.shape[1:]), x))
    y = random(jax.random.key(1), orbit.reshape(-1, *x.shape[1:]))
    return np.asarray(y).reshape(*orbit.shape[:2], 3)


class TestGroupConvolutionalNetwork:
    @pytest.mark.slow
    @pytest.mark.parametrize("group", ["C4", pytest.param("D4", marks=pytest.mark.slow)])
    def test_it_is_invariant_where_pixels_move_to_pixels(self, group):
        y = outputs_on_orbit(RotatedFilters(group, 3, 3), group)
        assert np.std(y[0]) > 0.01
        np.testing.assert_allclose(y, np.broadcast_to(y[:1], y.shape), atol=1e-5)

    def test_steerable_filters_keep_rotations_by_90_degrees_exact(self):
        y = outputs_on_orbit(RotatedFilters("C8", 2, 3), "C8")
        np.testing.assert_allclose(y[::2], np.broadcast_to(y[:1], y[::2].shape), atol=1e-5)

    @pytest.mark.parametrize("side", [4, 5])
    def test_filters_rotate_as_functions_of_the_plane(self, side):
        found = rotated_rings(side, 8)
        for g in range(8):
            for b, (R, m, phase) in enumerate(ring_functions(side)):
                image = found[g, :, b].reshape(side, side)
                np.testing.assert_allclose(found[(g + 2) % 8, :, b].reshape(side, side), np.rot90(image), atol=1e-12)
                at = [(j - (side - 1) / 2, (side - 1) / 2 - i) for i in range(side) for j in range(side)]
                literal = np.array(
                    [
                        np.exp(-((np.hypot(*p) - R) ** 2) / 0.72)
                        * (np.cos(m * (np.arctan2(p[1], p[0]) - phase - g * np.pi / 4)) if m and any(p) else m == 0)
                        for p in at
                    ]
                )
                along = (image.ravel() @ literal) / np.linalg.norm(image) / np.linalg.norm(literal)
                assert along == pytest.approx(1, abs=1e-12)

    @pytest.mark.slow
    def test_a_rotation_by_45_degrees_costs_a_smooth_image_little(self):
        row, column = np.mgrid[:14, :14] - 6.5
        blob = np.exp(-((row - 2) ** 2 + (column + 1) ** 2) / 6) - np.exp(-((row + 2) ** 2 + column**2) / 5)
        y = outputs_on_orbit(RotatedFilters("C8", 5, 3), "C8", np.stack([blob, blob.T])[..., None].astype(np.float32))
        assert np.linalg.norm(y - y[:1]) <= 0.1 * np.linalg.norm(y)

    def test_it_has_about_as_many_parameters_as_the_plain_network(self):
        problem = baselines.BaselineProblem("C4", (14, 14, 1), 10)
        wanted = count_parameters(cnn(problem), problem.shape)
        found = count_parameters(rotated_filters(problem, wanted), problem.shape)
        assert abs(found - wanted) <= 0.15 * wanted


class TestCanonicalImages:
    def test_the_classifier_sees_one_image_for_the_whole_orbit(self):
        flat = lambda outputs: nn.Sequential(nn.Flatten(), nn.Dense(4), nn.Relu(), nn.Dense(outputs))
        y = outputs_on_orbit(Canonicalised("D4", flat(1), flat(3)), "D4")
        np.testing.assert_allclose(y, np.broadcast_to(y[:1], y.shape), atol=1e-5)


def test_multiplications_are_those_of_every_further_image():
    net = nn.Sequential(nn.Conv(3, (2, 2), stride=2, padding="zero"), nn.Relu(), nn.Flatten(), nn.Dense(5))
    assert count_multiplications(net, (8, 8, 2)) == 16 * 4 * 2 * 3 + 16 * 3 * 5
    assert count_parameters(net, (8, 8, 2)) == 4 * 2 * 3 + 16 * 3 * 5
