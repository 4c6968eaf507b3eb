"""Law: the tangent kernel of a module is the product of its derivatives, whichever way it is computed."""

import numpy as np
import pytest
import torch

import equitangents as et
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.torch import ModuleKernel

RNG = np.random.default_rng(0)


class Tied(torch.nn.Module):
    """A residual sum, two parts that share a weight, one that is used twice, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)
        self.third, self.twice = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False)
        self.last = torch.nn.Linear(4, 2)
        self.third.weight = self.second.weight
        self.scale = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        x = self.first(x)
        x += 0.3  # in place
        x = x + torch.tanh(self.second(x))
        x = torch.tanh(self.third(x)) + self.twice(torch.tanh(self.twice(x)))
        return self.scale * self.last(x)


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 2))


def cnn():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 2, groups=2),
        nn.Tanh(), nn.Conv2d(4, 3, 2, dilation=1, bias=False), nn.Dropout(0.5), nn.Flatten(), nn.Linear(3, 2),
    )  # fmt: skip


CASES = {"mlp": (mlp, (3,)), "cnn": (cnn, (6, 6, 2)), "tied": (Tied, (3,))}


def case(name):
    """(module in float64, inputs, others)."""
    make, shape = CASES[name]
    torch.manual_seed(0)
    module = make().double()
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    return module, RNG.normal(size=(3, *shape)), RNG.normal(size=(2, *shape))


def jacobian(module, x):
    """(N, outputs, parameters), one derivative after another."""
    module.eval()
    rows = []
    for example in x:
        tensor = torch.from_numpy(np.moveaxis(example, -1, 0).copy() if example.ndim == 3 else example)
        values = module(tensor[None])[0]
        rows.append([torch.cat([
            (torch.zeros_like(p) if g is None else g).flatten()
            for p, g in zip(module.parameters(), torch.autograd.grad(v, list(module.parameters()), retain_graph=True,
                                                                     allow_unused=True), strict=True)
        ]).numpy() for v in values])  # fmt: skip
    return np.array(rows)


@pytest.mark.parametrize("memory", [10**9, 0])
@pytest.mark.parametrize("name", CASES)
def test_kernels_are_products_of_derivatives_whether_these_fit_into_memory_or_not(name, memory, monkeypatch):
    monkeypatch.setattr("equitangents.torch.kernel.default_memory_limit", lambda: memory)
    module, x, other = case(name)
    kernel = ModuleKernel(module)
    full = np.einsum("iou,jpu->ijop", jacobian(module, x), jacobian(module, other))
    module.train()
    np.testing.assert_allclose(kernel.ntk(x, other, "full"), full, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(kernel.ntk(x, other, "each"), np.einsum("ijoo->ijo", full), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(kernel.ntk(x, other), np.einsum("ijoo->ij", full) / 2, rtol=1e-9, atol=1e-11)
    assert all(part.training for part in module.modules())


def test_a_linearised_module_trains_as_an_ensembles_kernel_and_is_audited():
    module, x, other = case("mlp")
    y = RNG.normal(size=3)
    kernel = ModuleKernel(module)
    model = et.InfiniteEnsemble(kernel, time=3.0).fit(x, y)
    found = kernel.kernel(x)
    values, vectors = np.linalg.eigh(found.ntk)
    expected = y - vectors @ (np.exp(-3.0 * values / 3) * (vectors.T @ y))
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-9)
    outputs = module.eval()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found.nngp, outputs @ outputs.T / 2, rtol=1e-12)
    swap = et.actions.linear(et.groups.cyclic(2), np.stack([np.eye(3), np.eye(3)[[1, 0, 2]]]))
    report = et.audit(model, swap, other)
    assert report.verdict == "broken"


def test_what_is_no_module_is_refused():
    with pytest.raises(InvalidTypeError, match=r"torch\.nn\.Module"):
        ModuleKernel(lambda x: x)
    with pytest.raises(NetworkError, match="expected one with parameters"):
        ModuleKernel(torch.nn.Flatten())
    with pytest.raises(InvalidArgumentError, match="form is 'trace'"):
        ModuleKernel(mlp()).ntk(np.ones((2, 3)), form="trace")
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Unflatten(1, (2, 1)))
    with pytest.raises(ShapeError, match=r"expected one tensor \(N, outputs\)"):
        ModuleKernel(net).kernel(np.ones((2, 3)))
