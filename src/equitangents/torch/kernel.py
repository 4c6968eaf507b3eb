"""The kernels of one PyTorch module: its tangent kernel from derivatives, and the product of its outputs.

Structured derivatives are of y = a Wᵀ, by `Linear` and by `Conv2d` on patches, ∂f/∂W = Σ_p δ_pᵀ a_p:
    Θ_W(x, x') = Σ_pp' (a_p · a'_p') (δ_p · δ'_p'), where p runs over the positions that share W and δ = ∂f/∂y.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels import Kernels
from equitangents.kernels.structured_derivatives import Product, Structure
from equitangents.kernels.tangent import WAYS, cheapest, parameter_count
from equitangents.torch.backend import LAYOUTS
from equitangents.torch.modules import to_tensor
from equitangents.validation import check_array

if TYPE_CHECKING:
    import torch

FORMS = ("mean", "each", "full")
At = Callable[[dict[str, Any], Any], Any]


class EmpiricalKernel:
    """`kernel(x1, x2=None)` of a module whose outputs are (N, outputs): NTK and NNGP, means over outputs, (N1, N2).

    Takes the place of a network in `InfiniteEnsemble`: the module, linearised about its parameters, trained to any
    time. It is evaluated as by `module.eval()`, in the precision of its parameters, and is not changed. `layout` is
    that of `Ensemble`. `implementation`: "jacobians", "vectors" and "structured" as in
    `equitangents.empirical_ntk_fn`, where "structured" knows the weights of `Linear` and `Conv2d`; "auto" takes the
    one with the least counted work.

    Raises InvalidTypeError for anything but a module, NetworkError for one without parameters that are trained.

    Example: `InfiniteEnsemble(et.torch.EmpiricalKernel(module), time=5.0).fit(x, y).predict(x_test)`
    """

    def __init__(
        self, module: torch.nn.Module, *, layout: str = "channels_first", implementation: str = "auto"
    ) -> None:
        import torch

        if not isinstance(module, torch.nn.Module):
            raise InvalidTypeError("module", type(module), "a torch.nn.Module", verb="is a")
        for name, value, known in (("layout", layout, LAYOUTS), ("implementation", implementation, WAYS)):
            if value not in known:
                raise InvalidArgumentError(name, value, list(known))
        self.module, self.layout, self.implementation = module, layout, implementation
        self.parameters: dict[str, torch.Tensor] = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise NetworkError("the module trains no parameters, so it has no tangent kernel")

    def kernel(self, x1: Numbers, x2: Numbers | None = None) -> Kernels:
        """Kernels between x1 and x2 (None: x1), each (N1, N2)."""
        with self._evaluated():
            a, b = self._inputs(x1, x2)
            ntk = self._ntk(a, b, "mean")
            f = self.module(a).detach()
            g = f if b is None else self.module(b).detach()
            nngp = f @ g.T / f.shape[1]
        return Kernels(nngp.cpu().numpy(), ntk.cpu().numpy(), engine="derivatives", form="empirical")

    def ntk(self, x1: Numbers, x2: Numbers | None = None, form: str = "mean") -> np.ndarray:
        """Θ in one of its forms: "mean" over outputs, (N1, N2); "each" output with itself, (N1, N2, outputs); "full",
        all pairs of them, (N1, N2, outputs, outputs).
        """
        if form not in FORMS:
            raise InvalidArgumentError("form", form, list(FORMS))
        with self._evaluated():
            return np.asarray(self._ntk(*self._inputs(x1, x2), form).cpu().numpy())

    def product(self, x1: Numbers, x2: Numbers | None, vectors: Numbers) -> np.ndarray:
        """The product Θ(x1, x2) v, (N1, outputs), of v (N2, outputs); no Jacobian is held."""
        import torch

        with self._evaluated():
            a, b = self._inputs(x1, x2)
            b = a if b is None else b
            values, back = torch.func.vjp(lambda p: self._at(p, b), self._free())[:2]
            if np.shape(vectors) != tuple(values.shape):
                raise ShapeError("vectors", np.shape(vectors), tuple(values.shape), "the shape of the outputs")
            (pulled,) = back(torch.as_tensor(np.asarray(vectors), dtype=values.dtype, device=values.device))
            found = torch.func.jvp(lambda p: self._at(p, a), (self._free(),), (pulled,))[1]
            return np.asarray(found.detach().cpu().numpy())

    def way(self, n1: int, n2: int, x: torch.Tensor, form: str) -> str:
        """The implementation that runs: the one asked for, or the one with the least counted work (`cheapest`)."""
        if self.implementation != "auto":
            return self.implementation
        layers, outputs = structured_layers(self.module, self.parameters, x)
        known = sum(prod(self.parameters[layer.weight].shape) for layer in layers)
        counted = Structure(None, tuple(layers), outputs, parameter_count(self.parameters) - known)
        return cheapest(self.parameters, n1, n2, outputs, counted, form)

    def _ntk(self, a: torch.Tensor, b: torch.Tensor | None, form: str) -> torch.Tensor:
        way = self.way(len(a), len(a) if b is None else len(b), a, form)
        if way == "vectors":
            return self._by_vectors(a, a if b is None else b, form)
        layers = structured_layers(self.module, self.parameters, a)[0] if way == "structured" else []
        parts = [None if x is None else factors(self.module, self.parameters, layers, x, self._at) for x in (a, b)]
        one, other = parts
        assert one is not None
        return contracted(one, one if other is None else other, form)

    def _by_vectors(self, a: torch.Tensor, b: torch.Tensor, form: str) -> torch.Tensor:
        """One column after another: ∂f(x2_j)_p is pulled back to parameters, and pushed forward to all x1."""
        import torch

        columns = []
        for example in b:
            value, back = torch.func.vjp(lambda p, x=example[None]: self._at(p, x)[0], self._free())[:2]
            units = torch.eye(len(value), dtype=value.dtype, device=value.device)
            pulled = [back(unit)[0] for unit in units]
            pushed = [torch.func.jvp(lambda p: self._at(p, a), (self._free(),), (v,))[1] for v in pulled]
            columns.append(torch.stack(pushed, dim=-1).detach())  # (N1, o, p)
        full = torch.stack(columns, dim=1)
        if form == "full":
            return full
        own = torch.diagonal(full, dim1=-2, dim2=-1)
        return own if form == "each" else own.mean(dim=-1)

    def _at(self, parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        import torch

        found = torch.func.functional_call(self.module, parameters, (x,))
        if not isinstance(found, torch.Tensor) or found.ndim != 2:
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise ShapeError("module", shape, "one tensor (N, outputs)", verb="gives")
        return found

    def _free(self) -> dict[str, torch.Tensor]:
        return {name: p.detach() for name, p in self.parameters.items()}

    def _inputs(self, x1: Numbers, x2: Numbers | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        first = next(iter(self.parameters.values()))
        given = [None if x is None else check_array(n, np.asarray(x), min_rank=2) for n, x in (("x1", x1), ("x2", x2))]
        a, b = (None if x is None else to_tensor(x, self.layout, first.device).to(first.dtype) for x in given)
        assert a is not None
        return a, b

    @contextlib.contextmanager
    def _evaluated(self) -> Iterator[None]:
        """Every part of the module as in evaluation; afterwards as it was."""
        trained = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with warnings.catch_warnings():  # PyTorch's forward derivatives use a part of it that is deprecated
                warnings.filterwarnings("ignore", r".*torch\.jit\.script", DeprecationWarning)
                yield
        finally:
            for part in trained:
                part.training = True


@dataclass(frozen=True)
class Layer(Product):
    """A part that multiplies by its weight once: the names of both."""

    part: str
    weight: str


class Factors(NamedTuple):
    """What is held: a (N, p, c) and δ (N, outputs, p, w) of each layer; the rest's Jacobian (N, outputs, numbers)."""

    inner: list[torch.Tensor]
    outer: list[torch.Tensor]
    rest: torch.Tensor


def reused(module: torch.nn.Module) -> set[int]:
    """The parameters that more than one part holds, by identity."""
    held = Counter(id(p) for part in module.modules() for p in part.parameters(recurse=False))
    return {key for key, count in held.items() if count > 1}


def structured_layers(
    module: torch.nn.Module, parameters: dict[str, torch.Tensor], x: torch.Tensor
) -> tuple[list[Layer], int]:
    """The layers whose weights are used once, seen in an evaluation of the first input; and how many outputs it has."""
    import torch

    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    shared, seen = reused(module), dict[str, list[tuple[Any, Any]]]()
    parts = {name: part for name, part in module.named_modules() if type(part) in kinds}
    hooks = [
        part.register_forward_hook(lambda _, given, y, name=name: seen.setdefault(name, []).append((given[0], y)))
        for name, part in parts.items()
    ]
    try:
        with torch.no_grad():
            outputs = module(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    found = []
    for name, calls in seen.items():
        part = parts[name]
        weight = f"{name}.weight" if name else "weight"
        if len(calls) != 1 or weight not in parameters or id(part.weight) in shared or not _plain(part):
            continue
        ((_, y),) = calls
        outer = part.weight.shape[0]
        leaf = list(parameters).index(weight)
        found.append(Layer(leaf, y.numel() // outer, part.weight[0].numel(), outer, name, weight))
    return found, outputs.shape[-1]


def _plain(part: Any) -> bool:
    """Whether patches, zeros around them, times one matrix are what the layer does."""
    return not hasattr(part, "groups") or (
        part.groups == 1 and part.padding_mode == "zeros" and not isinstance(part.padding, str)
    )


def factors(
    module: torch.nn.Module, parameters: dict[str, torch.Tensor], layers: list[Layer], x: torch.Tensor, at: At
) -> Factors:
    """Both factors of every input of x, in evaluation mode, where inputs do not know of each other."""
    import torch

    parts, seen = dict(module.named_modules()), dict[str, tuple[Any, Any]]()

    def shift(name: str) -> Callable[[Any, Any, Any], Any]:
        def hook(_: Any, given: Any, y: Any) -> Any:
            kept = y if y.requires_grad else y.detach().requires_grad_()
            seen[name] = (given[0].detach().clone(), kept)
            return kept.clone()  # what follows may work in place

        return hook

    inner, outer = [], []
    if layers:
        hooks = [parts[layer.part].register_forward_hook(shift(layer.part)) for layer in layers]
        try:
            with torch.enable_grad():
                values = module(x)
                at_layers = [seen[layer.part][1] for layer in layers]
                slopes = [
                    torch.autograd.grad(values[:, o].sum(), at_layers, retain_graph=True, allow_unused=True)
                    for o in range(values.shape[1])
                ]
        finally:
            for hook in hooks:
                hook.remove()
        for k, layer in enumerate(layers):
            y = at_layers[k]
            grads = [torch.zeros_like(y) if slope[k] is None else slope[k] for slope in slopes]
            inner.append(_patches(parts[layer.part], seen[layer.part][0]))
            outer.append(torch.stack([_by_position(parts[layer.part], grad) for grad in grads], dim=1).detach())
    known = {layer.weight for layer in layers}
    rest = {name: p.detach() for name, p in parameters.items() if name not in known}
    fixed = {name: parameters[name].detach() for name in known}
    if not rest:
        outputs = outer[0].shape[1]
        return Factors(inner, outer, x.new_zeros((len(x), outputs, 0)))
    one = lambda free, example: at({**fixed, **free}, example[None])[0]
    jacobians = torch.func.vmap(torch.func.jacrev(one), (None, 0))(rest, x)
    flat = [j.reshape((*j.shape[:2], -1)) for j in jacobians.values()]
    return Factors(inner, outer, torch.cat(flat, dim=-1).detach())


def _patches(part: Any, x: torch.Tensor) -> torch.Tensor:
    """What each position multiplies the weight with: (N, p, c)."""
    import torch

    if not hasattr(part, "groups"):
        return x.reshape((len(x), -1, x.shape[-1]))
    unfold = torch.nn.functional.unfold
    return unfold(x, part.kernel_size, part.dilation, part.padding, part.stride).transpose(1, 2)


def _by_position(part: torch.nn.Module, y: torch.Tensor) -> torch.Tensor:
    """Outputs of a layer, or derivatives by them, as (N, p, w)."""
    if not hasattr(part, "groups"):
        return y.reshape((len(y), -1, y.shape[-1]))
    return y.flatten(2).transpose(1, 2)


def contracted(one: Factors, other: Factors, form: str) -> torch.Tensor:
    """Θ from the factors of both sets of inputs: "mean" over outputs, "each" with itself, or "full"."""
    import torch

    letters = {"mean": "o,o->ij", "each": "o,o->ijo", "full": "o,r->ijor"}[form]
    (first, second), result = letters.split("->")[0].split(","), letters.split("->")[1]
    total = torch.einsum(f"i{first}u,j{second}u->{result}", one.rest, other.rest)
    for a, d, b, e in zip(one.inner, one.outer, other.inner, other.outer, strict=True):
        near = torch.einsum("ipc,jqc->ipqj", a, b)
        total = total + torch.einsum(f"ipqj,i{first}pw,j{second}qw->{result}", near, d, e)
    return total / one.rest.shape[1] if form == "mean" else total
