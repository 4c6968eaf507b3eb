"""Structured derivatives of modules: of y = a Wᵀ, by `Linear` and by `Conv2d` on patches, ∂f/∂W = Σ_p δ_pᵀ a_p.

Θ_W(x, x') = Σ_pp' (a_p · a'_p') (δ_p · δ'_p'), where p runs over the positions that share W and δ = ∂f/∂y.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

At = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class Layer:
    """A part that multiplies by its weight once: the names of both, and sizes for each of the `positions`."""

    part: str
    weight: str
    positions: int
    inner: int  # entries of a
    outer: int  # entries of y


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
        found.append(Layer(name, weight, y.numel() // outer, part.weight[0].numel(), outer))
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
