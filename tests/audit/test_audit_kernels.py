"""A kernel is audited through the functions that predictions by it consist of; a linearised model as an ensemble."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.functional import EmpiricalKernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))
SWAP = et.actions.linear(et.groups.cyclic(2), np.stack([np.eye(3), np.eye(3)[[1, 0, 2]]]))


@pytest.fixture(scope="module")
def kernel():
    net = et.nn.Sequential(et.nn.Dense(8), et.nn.Erf(), et.nn.Dense(2))
    return EmpiricalKernel(net.apply, net.init(jax.random.key(0), (3,), dtype="float64"))


@pytest.mark.slow
def test_a_kernel_answers_with_its_values_at_the_first_inputs_it_sees(kernel):
    model = as_model(kernel)
    first, again = model.run(X), model.run(X[4:])
    assert np.array_equal(first, kernel.kernel(X, X).ntk)
    assert np.max(np.abs(again - first[4:])) <= 1e-12 * np.max(np.abs(first))
    with pytest.raises(et.errors.InvalidTypeError, match="a network without parameters"):
        as_model(et.nn.Sequential(et.nn.Dense(1)))


@pytest.mark.slow
def test_a_kernel_is_audited_and_its_orbit_average_is_invariant(kernel):
    report = et.audit(kernel, SWAP, X)
    assert (report.verdict, report.model.name, report.model.kind) == ("broken", "EmpiricalKernel", "kernel")
    net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    assert et.audit(et.kernels.orbit_average(net, SWAP), SWAP, X).verdict.startswith("equivariant")


@pytest.mark.slow
def test_a_linearised_model_is_audited_at_any_time(kernel):
    model = et.InfiniteEnsemble(kernel, time=2.0).fit(X, RNG.normal(size=6))
    assert et.audit(model, SWAP, X).verdict == "broken"
