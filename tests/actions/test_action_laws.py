"""Laws that every exact action obeys, on random signals, NumPy and JAX, eager and under jit."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, NotAnActionError


def _regular():
    G = groups.symmetric(3)
    return actions.permutations(G, G.table), (6, 2)


def _oblique():
    """A representation that is not orthogonal: matrices of D4 in an oblique basis."""
    turn, flip = np.array([[0, -1], [1, 0]]), np.diag([1, -1])
    power = np.linalg.matrix_power
    G = groups.from_matrices([power(turn, k) @ power(flip, f) for f in range(2) for k in range(4)])
    basis = np.array([[1.0, 0.4], [-0.3, 0.8]])
    return actions.linear(G, basis @ G.matrices @ np.linalg.inv(basis)), (2,)


def _vector_fields():
    rot = actions.image_rotations(4)
    turn = np.array([[0, -1], [1, 0]])
    quarter_turns = [np.linalg.matrix_power(turn, k) for k in range(4)]
    return actions.tensor_product(rot, actions.linear(rot.group, quarter_turns)), (3, 3, 2)


def _of_a_subgroup():
    labels = actions.labels(groups.cyclic(4), [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]])
    return actions.restrict(labels, labels.group.subgroup([0, 2])), (4,)


def _sum():
    S3, action = groups.symmetric(3), actions.labels
    permuting = action(S3, [S3.element(g) for g in S3])
    sign = action(S3, [[[np.linalg.det(m)]] for m in permuting.matrices])
    return actions.direct_sum(permuting, sign), (4,)


def _product():
    S3 = groups.symmetric(3)
    permuting = actions.labels(S3, [S3.element(g) for g in S3])
    return actions.tensor_product(permuting, permuting), (9,)


CASES = {
    "regular": _regular,
    "quarter turns": lambda: (actions.image_rotations(4), (5, 5, 2)),
    "half turns": lambda: (actions.image_rotations(2), (3, 4, 1)),
    "dihedral 4": lambda: (actions.image_dihedral(4), (4, 4, 1)),
    "dihedral 2": lambda: (actions.image_dihedral(2), (2, 5, 1)),
    "dihedral 1": lambda: (actions.image_dihedral(1), (2, 3, 2)),
    "p4m": lambda: (actions.grid(groups.wallpaper(4, True, (3, 3))), (3, 3, 2)),
    "p2mm": lambda: (actions.grid(groups.wallpaper(2, True, (2, 3))), (2, 3, 1)),
    "translations": lambda: (actions.translations((2, 3, 2)), (2, 3, 2, 1)),
    "oblique": _oblique,
    "rotations": lambda: (actions.rotations(groups.icosahedral()), (3,)),
    "point clouds": lambda: (actions.rotations(groups.octahedral()), (4, 3)),
    "channels": lambda: (
        actions.channels(groups.symmetric(3), [groups.symmetric(3).element(g) for g in range(6)]),
        (2, 2, 3),
    ),
    "trivial": lambda: (actions.trivial(groups.quaternion()), (2, 3)),
    "vector fields": _vector_fields,
    "of a subgroup": _of_a_subgroup,
    "direct sum": _sum,
    "tensor product": _product,
    "restricted": lambda: (
        actions.restrict(actions.image_dihedral(4), groups.dihedral(4).subgroup([0, 2, 5, 7])),
        (3, 3, 1),
    ),
    "function": lambda: (actions.from_function(groups.cyclic(3), lambda g, x: jnp.roll(x, g, axis=1)), (3, 1)),
}


@st.composite
def acted_upon(draw, elements=1):
    action, shape = CASES[draw(st.sampled_from(sorted(CASES)))]()
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(2, *shape))
    return action, x, *(draw(st.integers(0, action.group.order - 1)) for _ in range(elements))


@pytest.fixture(params=sorted(CASES))
def case(request):
    action, shape = CASES[request.param]()
    return action, np.random.default_rng(0).normal(size=(3, *shape))


class TestLaws:
    @given(acted_upon(elements=2))
    def test_products(self, drawn):
        action, x, g, h = drawn
        np.testing.assert_allclose(action(g, action(h, x)), action(action.group.compose(g, h), x), atol=2e-6)

    def test_no_array_that_it_holds_can_be_changed(self, case):
        action, x = case
        action.orbit(x)
        held = [part for part in vars(action).values() if isinstance(part, np.ndarray)]
        assert not any(part.flags.writeable for part in held)

    def test_identity_and_inverse(self, case):
        action, x = case
        np.testing.assert_allclose(action(action.group.identity, x), x, rtol=1e-6)
        for g in range(0, action.group.order, 5):
            np.testing.assert_allclose(action(action.group.inverse(g), action(g, x)), x, atol=2e-6)

    def test_linear(self, case):
        action, x = case
        g = action.group.order - 1
        np.testing.assert_allclose(
            action(g, 2 * x[:1] - x[1:2]), 2 * action(g, x[:1]) - action(g, x[1:2]), rtol=1e-5, atol=2e-6
        )

    def test_verifies(self, case):
        action, x = case
        action.verify(x.astype(np.float32))
        assert action.exact
        assert action.resampling_error(x.astype(np.float32)).max() < 1e-5


class TestCalls:
    def test_orbit_holds_every_image(self, case):
        action, x = case
        orbit = action.orbit(x)
        assert orbit.shape == (action.group.order, *x.shape)
        for g in action.group:
            np.testing.assert_allclose(orbit[g], action(g, x), atol=1e-14)
        some = np.arange(action.group.order)[::-3]
        np.testing.assert_allclose(action.orbit(x, elements=some), orbit[some], atol=1e-14)

    @pytest.mark.quick(2)
    def test_jax_in_jax_out_in_its_precision_and_compiled(self, case):
        action, x = case
        g = action.group.order - 1
        for compiled, expected in (
            (jax.jit(lambda x: action(g, x)), action(g, x)),
            (jax.jit(action.orbit), action.orbit(x)),
        ):
            y = compiled(jnp.asarray(x, jnp.float32))
            assert isinstance(y, jax.Array)
            assert y.dtype == np.float32
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        with jax.enable_x64(True):
            x64 = jnp.asarray(x, jnp.float64)
        y = action(1 % action.group.order, x64)
        assert isinstance(y, jax.Array)
        assert y.dtype == np.float64

    def test_numpy_in_numpy_out_in_its_precision(self, case):
        action, x = case
        if "custom" in action.name:
            return  # the function decides
        for dtype in (np.float32, np.float64):
            y = action(1 % action.group.order, x.astype(dtype))
            assert type(y) is np.ndarray
            assert y.dtype == dtype
            assert action.orbit(x.astype(dtype)).dtype == dtype

    def test_never_shares_memory_with_its_input(self, case):
        action, x = case
        assert not np.shares_memory(action(action.group.identity, x), x)

    def test_integers_and_lists(self):
        assert actions.image_rotations(4)(1, [[[[1], [2]], [[3], [4]]]])[0, :, :, 0].tolist() == [[2, 4], [1, 3]]


class TestValues:
    def test_equal_if_made_alike(self):
        for name, make in CASES.items():
            if name == "function":
                continue
            a, b = make()[0], make()[0]
            assert a == b, name
            assert hash(a) == hash(b), name
        made = [make()[0] for make in CASES.values()]
        assert len(set(made)) == len(made)

    def test_differ_by_what_they_do(self):
        assert actions.image_rotations(8) != actions.image_rotations(8, order=1)
        assert actions.image_rotations(4) != actions.image_dihedral(2)
        assert actions.grid(groups.wallpaper(1, False, (1, 6))) != actions.grid(groups.wallpaper(1, False, (6, 1)))
        assert actions.image_rotations(4) != "image_rotations"

    def test_immutable_copied_pickled(self):
        rot = actions.image_rotations(4)
        with pytest.raises(AttributeError, match="immutable"):
            rot.exact = False
        assert copy.deepcopy(rot) is rot
        assert copy.copy(rot) is rot
        assert pickle.loads(pickle.dumps(rot)) == rot
        assert repr(rot) == "<action rotations by 90° of images of C4>"


class TestVerify:
    def test_finds_a_map_that_is_no_action(self):
        x = np.random.default_rng(0).normal(size=(2, 4))
        # the order of the product is wrong: g acts as its inverse should
        S3 = groups.symmetric(3)
        wrong = actions.from_function(S3, lambda g, x: x[:, list(S3.element(g))], name="backwards")
        with pytest.raises(NotAnActionError, match="backwards") as error:
            wrong.verify(x[:, :3])
        g, h = error.value.at
        x = x[:, :3]
        assert not np.allclose(wrong(g, wrong(h, x)), wrong(S3.compose(g, h), x))

    def test_finds_an_identity_that_acts(self):
        wrong = actions.from_function(groups.cyclic(1), lambda g, x: 2 * x)
        with pytest.raises(NotAnActionError, match=r"is off by 1.0; expected ρ\(e\) x = x"):
            wrong.verify(np.ones((1, 2)))

    def test_samples_large_groups(self):
        G = groups.wallpaper(4, False, (12, 12))
        actions.grid(G).verify(np.random.default_rng(0).normal(size=(1, 12, 12, 1)))

    def test_does_not_hold_inexact_actions_to_it(self):
        x = np.random.default_rng(0).normal(size=(1, 6, 6, 1))
        actions.image_rotations(8).verify(x)
        actions.from_function(groups.cyclic(2), lambda g, x: x + g, exact=False).verify(x)


class TestBadInput:
    def test_elements(self):
        rot, x = actions.image_rotations(4), np.zeros((1, 2, 2, 1))
        with pytest.raises(InvalidArgumentError, match="g is 4; expected 0 to 3"):
            rot(4, x)
        with pytest.raises(InvalidArgumentError, match="g is -1"):
            rot(-1, x)
        with pytest.raises(InvalidTypeError, match="g has dtype float64"):
            rot(1.0, x)
        with pytest.raises(InvalidTypeError, match=r"g is of type .*Tracer; expected a Python int"):
            jax.jit(rot)(1, x)
        with pytest.raises(InvalidArgumentError, match="elements is 7"):
            rot.orbit(x, elements=[0, 7])
        with pytest.raises(InvalidArgumentError, match="elements has shape"):
            rot.orbit(x, elements=[])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, case, value):
        action, x = case
        x[-1] = value
        with pytest.raises(ValueError, match="x holds NaN or infinite values"):
            action(0, x)
        with pytest.raises(ValueError, match="x holds NaN or infinite values"):
            action.orbit(x)

    def test_rank(self, case):
        action, x = case
        if action.name == "trivial action":
            return
        with pytest.raises(ValueError, match="x "):
            action(0, x[0, ..., :1].ravel())

    def test_custom_function_that_changes_the_shape(self):
        with pytest.raises(ValueError, match=r"function gives shape \(2, 1\); expected \(2, 3\)"):
            actions.from_function(groups.cyclic(1), lambda g, x: x[:, :1])(0, np.ones((2, 3)))
        with pytest.raises(InvalidTypeError, match="function is of type int"):
            actions.from_function(groups.cyclic(1), 3)
        with pytest.raises(InvalidTypeError, match="group is of type int"):
            actions.trivial(4)


def test_orbits_that_cannot_fit_in_memory_are_refused():
    images = np.broadcast_to(np.float32(0), (5_000, 64, 64, 3))
    action = actions.translations((64, 64))
    with pytest.raises(MemoryLimitError, match=r"4096 moved copies of 5000 signals needs about 1\.01 TB"):
        action.orbit(images)
    clouds = np.broadcast_to(np.float32(0), (5_000_000, 3))
    with pytest.raises(MemoryLimitError, match="30420 moved copies of 5000000"):
        actions.rotations(groups.so3(20)).orbit(clouds)
