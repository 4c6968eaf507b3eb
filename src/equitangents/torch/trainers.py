"""Training of members: losses, optimisers, the order of the data.

Members are trained one after another by autograd, or together by torch.func's vmap. The latter needs modules that are
functions of their parameters, buffers and inputs. `reason_against` gives the reason why a module is not, after a trial
that compares gradients with autograd's.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equitangents.ensembles.training.variations import PLAIN
from equitangents.torch.modules import FieldOutputs, Seeds, Tensors, random_numbers, tensors

if TYPE_CHECKING:
    import torch

_TRIED = 2  # members of a trial
_AGREE = {4: 1e-3, 8: 1e-8}  # by bytes of a number: difference of gradients over their size
_ELEMENTWISE = (
    "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Rprop",
)  # fmt: skip
"""Optimisers that treat every entry of a parameter by itself, so that stacked parameters are trained as single ones."""


@dataclass(frozen=True)
class TorchRecipe:
    """Everything that determines the arithmetic of training, except data and seeds."""

    loss: str
    optimizer: str | Callable[..., torch.optim.Optimizer]
    learning_rate: float
    momentum: float
    batch_size: int
    device: torch.device
    fields: FieldOutputs | None = None

    variation = PLAIN

    def lost(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean over a batch of ½ Σ_k (f_k − y_k)² or −Σ_k y_k log softmax(f)_k; of fields summed over positions.

        outputs: of a module for the batch. targets: (rows, numbers).
        """
        import torch

        rows = outputs if self.fields is None else self.fields.rows(outputs)
        if self.loss == "mse":
            return 0.5 * ((rows - targets) ** 2).sum(dim=-1).mean()
        classes = rows.shape[1] if self.fields is None else self.fields.outputs
        logits, shares = rows.reshape(-1, classes), targets.reshape(-1, classes)
        return -(shares * torch.log_softmax(logits, dim=-1)).sum(dim=-1).mean() * (rows.shape[1] // classes)

    def optimiser(self, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
        """A new optimiser of these tensors."""
        import torch

        if callable(self.optimizer):
            return self.optimizer(parameters)
        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=self.learning_rate)
        momentum = self.momentum if self.optimizer == "momentum" else 0.0
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=momentum)


@dataclass(frozen=True)
class Data:
    """Inputs x as modules read them and targets y (rows, outputs); an epoch visits `samples`, each of `copies` rows."""

    x: torch.Tensor
    y: torch.Tensor
    samples: int
    copies: int

    def order(self, generator: torch.Generator, batch_size: int) -> torch.Tensor:
        """The rows that an epoch visits, one after another, (samples,)."""
        import torch

        whole = batch_size == self.samples
        rows = torch.arange(self.samples) if whole else torch.randperm(self.samples, generator=generator)
        if self.copies > 1:
            rows = rows + self.samples * torch.randint(self.copies, (self.samples,), generator=generator)
        return rows


class OneByOne:
    """One module in training, which draws from a generator of its own."""

    def __init__(
        self, modules: Sequence[torch.nn.Module], data: Data, recipe: TorchRecipe, seeds: Sequence[Seeds]
    ) -> None:
        (self._module,), (self._seeds,) = modules, seeds
        self._data, self._recipe = data, recipe
        self.optimiser = recipe.optimiser(self._module.parameters())
        self.noise: list[torch.Tensor] = []  # states of the generators that the module draws from

    def epoch(self, orders: Sequence[torch.Tensor]) -> np.ndarray:
        """One pass over the rows that the member visits in order; its mean loss, (1,)."""
        (order,), total = orders, 0.0
        for rows in order.split(self._recipe.batch_size):
            self.optimiser.zero_grad()
            loss = self._recipe.lost(self._module(self._data.x[rows]), self._data.y[rows])
            loss.backward()
            self.optimiser.step()
            total += float(loss.detach()) * len(rows)
        return np.array([total / self._data.samples])

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """The module in training, and PyTorch's generators where this member left them; afterwards as they were."""
        import torch

        device = self._recipe.device
        self._module.train()
        with random_numbers(self._seeds.noise, device):
            if self.noise:
                torch.set_rng_state(self.noise[0])
            if self.noise and device.type == "cuda":
                torch.cuda.set_rng_state(self.noise[1], device)
            yield
            self.noise = [torch.get_rng_state()]
            if device.type == "cuda":
                self.noise.append(torch.cuda.get_rng_state(device))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name, stacked over members, of which there is one."""
        return {name: tensor[None] for name, tensor in tensors(self._module).items()}


class Vectorised:
    """Modules in training, all of them by one gradient a step."""

    def __init__(
        self, modules: Sequence[torch.nn.Module], data: Data, recipe: TorchRecipe, seeds: Sequence[Seeds]
    ) -> None:
        self._data, self._recipe, self._count = data, recipe, len(modules)
        self._stacked = _Stacked(modules, recipe)
        self.optimiser = recipe.optimiser(list(self._stacked.trained.values()))
        self.noise: list[torch.Tensor] = []  # no module draws random numbers

    def epoch(self, orders: Sequence[torch.Tensor]) -> np.ndarray:
        """One pass over the rows that each member visits in order; mean losses (members,)."""
        import torch

        data, stacked = self._data, self._stacked
        total = torch.zeros(self._count, dtype=data.y.dtype, device=self._recipe.device)
        for rows in torch.stack(list(orders)).split(self._recipe.batch_size, dim=1):
            gradients, losses = stacked.gradients(data.x[rows], data.y[rows], 0)
            for name, parameter in stacked.trained.items():
                parameter.grad = gradients[name]
            self.optimiser.step()
            total += losses * rows.shape[1]
        return np.asarray((total / data.samples).cpu().numpy())

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Nothing has to be set: no random numbers are drawn."""
        yield

    def tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name, stacked over members."""
        return self._stacked.trained | self._stacked.fixed


def reason_against(modules: Sequence[torch.nn.Module], data: Data, recipe: TorchRecipe, seed: int) -> str | None:
    """Why these modules cannot be trained together; None if they can."""
    import torch

    reason = _layer_against(modules[0]) or _optimizer_against(modules[0], recipe)
    if reason is not None:
        return reason
    tried = [copy.deepcopy(m).train() for m in (modules[0], modules[-1])[:_TRIED]]
    some = slice(0, min(4, len(data.x)))
    x, y = data.x[some], data.y[some]
    with random_numbers(seed, recipe.device):
        before = {name: b.clone() for name, b in tried[0].named_buffers()}
        single = [_gradient_alone(m, x, y, recipe) for m in tried]
        changed = [name for name, b in tried[0].named_buffers() if not torch.equal(b, before[name])]
        if changed:
            return f"its buffer {changed[0]!r} changes in training"
        try:
            gradients, _ = _Stacked(tried, recipe).gradients(x, y, None)
        except Exception as error:
            return f"torch.func cannot map it over members: {' '.join(str(error).split())[:200]}"
    for name, together in gradients.items():
        stacked = torch.stack([g[name] for g in single])
        difference, size = float((together - stacked).abs().max()), float(stacked.abs().max())
        if not difference <= _AGREE[stacked.dtype.itemsize] * size + torch.finfo(stacked.dtype).eps:
            return f"the gradient of {name!r} by torch.func differs from autograd's by {difference:.2g}, of {size:.2g}"
    return None


class _Stacked:
    """Tensors of several modules, stacked; those that are trained are leaves."""

    def __init__(self, modules: Sequence[torch.nn.Module], recipe: TorchRecipe) -> None:
        import torch

        self._template = copy.deepcopy(modules[0]).to("meta").train()
        self._loss = recipe.lost
        parameters, buffers = torch.func.stack_module_state(list(modules))
        frozen = {name for name, p in modules[0].named_parameters() if not p.requires_grad}
        self.trained = {name: p for name, p in parameters.items() if name not in frozen}
        self.fixed: dict[str, torch.Tensor] = buffers | {name: parameters[name].detach() for name in frozen}

    def gradients(self, x: torch.Tensor, y: torch.Tensor, axis: int | None) -> tuple[Tensors, torch.Tensor]:
        """(gradients by name, losses) of all members, each on its batch along `axis`, or all on one."""
        import torch

        def loss(trained: Tensors, fixed: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self._loss(torch.func.functional_call(self._template, trained | fixed, (x,)), y)

        values = {name: p.detach() for name, p in self.trained.items()}  # without autograd's graph
        step = torch.func.vmap(torch.func.grad_and_value(loss), in_dims=(0, 0, axis, axis))
        result: tuple[Tensors, torch.Tensor] = step(values, self.fixed, x, y)
        return result


def _gradient_alone(
    module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, recipe: TorchRecipe
) -> dict[str, torch.Tensor]:
    import torch

    module.zero_grad()
    recipe.lost(module(x), y).backward()
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in trained}


def _layer_against(module: torch.nn.Module) -> str | None:
    import torch

    for name, layer in module.named_modules():
        called = f"its layer {name!r} ({type(layer).__name__})" if name else f"it ({type(layer).__name__})"
        if getattr(layer, "track_running_stats", False):
            return f"{called} keeps running statistics"
        if isinstance(layer, torch.nn.modules.dropout._DropoutNd) and layer.p > 0:
            return f"{called} draws random numbers, which must not depend on other members"
    return None


def _optimizer_against(module: torch.nn.Module, recipe: TorchRecipe) -> str | None:
    if not callable(recipe.optimizer):
        return None
    name = type(recipe.optimiser(copy.deepcopy(module).parameters())).__name__
    return None if name in _ELEMENTWISE else f"the optimizer {name} does not treat every entry of a parameter by itself"
