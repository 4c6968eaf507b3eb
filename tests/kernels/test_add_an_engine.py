"""An engine of another package: registered by one line, it runs networks, says what it cannot, and is priced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import engines
from equitangents.kernels.engines import select
from equitangents.kernels.operations import Affine
from equitangents.nn import Conv, Dense, Flatten, GroupPool, Relu, Sequential, SphereLift

SOLID = et.groups.octahedral()
LINEAR = Sequential(Dense(1, W_std=1.3, b_std=0.2), Dense(1, W_std=0.7))


class Linear(et.kernels.Engine):
    """Stacks of dense layers, in NumPy."""

    name = "toy"
    ran = 0

    def description(self):
        return "a few lines"

    def obstacle(self, program, dtype):
        plain = program.shape == () and all(isinstance(op, Affine) for op in program.ops)
        return None if plain else "it runs dense layers alone"

    def kernels(self, program, x1, x2):
        self.ran += 1
        return self.carried(program, x1 @ (x1 if x2 is None else x2).T / x1.shape[1])

    def diagonal(self, program, x):
        return self.carried(program, (x**2).mean(axis=1))

    def traced(self, program, x1, x2):
        return self.carried(program, x1 @ (x1 if x2 is None else x2).T / x1.shape[1])

    def working_bytes(self, program, channels, n1, n2, itemsize):
        return n1 * n2 * itemsize

    def carried(self, program, k):
        theta = 0 * k
        for op in program.ops:
            k = op.W_var * k + op.b_var
            theta = k + op.W_var * theta
        return k, theta


@pytest.fixture
def toy():
    engine = Linear()
    et.kernels.register_engine(engine)
    yield engine
    engines.unregister(engine)


@pytest.fixture
def x(rng):
    return rng.standard_normal((5, 4))


def test_a_registered_engine_computes_what_the_reference_does(toy, x):
    found, expected = (LINEAR.kernel(x, x[:2], engine=name) for name in ("toy", "reference"))
    assert (found.engine, toy.ran) == ("toy", 1)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    own = LINEAR.kernel_diagonal(x, engine="toy")
    np.testing.assert_allclose(own.ntk, np.diag(LINEAR.kernel(x, engine="toy").ntk), rtol=1e-12)


@pytest.mark.slow
def test_inside_jax_programs_it_has_the_derivatives_of_the_reference(toy, x):
    with jax.enable_x64(True):
        slope, expected = (
            jax.jit(jax.grad(lambda a, name=name: LINEAR.kernel(a, engine=name).ntk.sum()))(jnp.asarray(x))
            for name in ("toy", "reference")
        )
    np.testing.assert_allclose(slope, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("net", "shape", "reason"),
    [
        (Sequential(Conv(1, 3), Relu(), Flatten(), Dense(1)), (4, 1), "it runs dense layers alone"),
        (Sequential(SphereLift(SOLID, 1), Relu(), GroupPool()), (4, 1), "it has no rule for rotations"),
    ],
    ids=["grid", "rotations"],
)
def test_what_it_cannot_run_is_refused_with_its_reason(toy, net, shape, reason):
    with pytest.raises(InvalidArgumentError, match=f"'toy'; expected an engine that runs this network; {reason}"):
        net.kernel(np.ones((2, *shape)), engine="toy")


def test_its_cost_is_that_which_it_says_and_what_calibrating_it_takes(toy):
    cost = LINEAR.kernel_cost((4,), 10, engine="toy")
    assert (cost.engine, cost.working_bytes) == ("toy", 10 * 10 * 4)
    assert 0 < cost.seconds < 10


def test_the_environment_forces_an_engine_on_a_whole_program(toy, x, monkeypatch):
    monkeypatch.setenv(select.VARIABLE, "toy")
    assert engines.engine_name() == "toy"
    assert engines.engine_description() == "toy (a few lines; EQUITANGENTS_ENGINE asks for it)"
    assert LINEAR.kernel(x).engine == "toy"
    assert LINEAR.kernel(x, engine="cpu").engine == "cpu"
    with pytest.raises(
        InvalidArgumentError, match=r"EQUITANGENTS_ENGINE is .toy.; expected an engine that .*; unset it"
    ):
        Sequential(Dense(1), Relu(), Dense(1)).kernel(x)
    monkeypatch.setenv(select.VARIABLE, "abacus")
    with pytest.raises(InvalidArgumentError, match="EQUITANGENTS_ENGINE is 'abacus'; expected nothing or one of 'cpu'"):
        LINEAR.kernel(x)


def test_averages_over_translations_use_the_engine_that_is_forced(toy, monkeypatch, rng):
    net, x = Sequential(Flatten(), Dense(1)), rng.standard_normal((3, 2, 2, 1))
    expected = et.kernels.orbit_average(net, et.actions.translations((2, 2))).kernel(x)
    monkeypatch.setenv(select.VARIABLE, "toy")
    found = et.kernels.orbit_average(net, et.actions.translations((2, 2))).kernel(x)
    assert found.engine == "toy"
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-10)


def test_a_name_is_given_once_and_only_engines_are_registered(toy):
    with pytest.raises(InvalidArgumentError, match="engine is 'toy'; expected a name that no other engine has"):
        et.kernels.register_engine(Linear())
    with pytest.raises(InvalidArgumentError, match="expected an instance of a subclass of Engine"):
        et.kernels.register_engine(Linear)
    names = [repr(engine.name) for engine in engines.engines()]
    assert names == ["'cpu'", "'reference'", "'toy'"]
    with pytest.raises(InvalidArgumentError, match=f"expected None or one of {', '.join(names)}"):
        LINEAR.kernel(np.ones((2, 4)), engine="abacus")
