"""The kernels of one PyTorch module: its tangent kernel from derivatives, and the product of its outputs.

Θ(x, x') = ∂f(x)/∂θ (∂f(x')/∂θ)ᵀ: the product of two Jacobians where they fit into memory, else one column after
another, ∂f(x') pulled back to parameters and pushed forward.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equitangents._types import Numbers
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels import Kernels
from equitangents.memory import default_memory_limit
from equitangents.torch.modules import LAYOUTS, to_tensor
from equitangents.validation import check_array, check_choice

if TYPE_CHECKING:
    import torch

_PRODUCTS = {"mean": "iou,jou->ij", "each": "iou,jou->ijo", "full": "iou,jru->ijor"}  # of Jacobians, by form of Θ


class ModuleKernel:
    """`kernel(x1, x2=None)` of a module whose outputs are (N, outputs): NTK and NNGP, means over outputs, (N1, N2).

    Takes the place of a network in `InfiniteEnsemble`: the module, linearised about its parameters, trained to any
    time. It is evaluated as by `module.eval()`, in the precision of its parameters, and is not changed. `layout` is
    that of `Ensemble`.

    Raises InvalidTypeError for anything but a module, NetworkError for one without parameters that are trained.

    Example: `InfiniteEnsemble(et.torch.ModuleKernel(module), time=5.0).fit(x, y).predict(x_test)`
    """

    def __init__(self, module: torch.nn.Module, *, layout: str = "channels_first") -> None:
        import torch

        if not isinstance(module, torch.nn.Module):
            raise InvalidTypeError("module", type(module), "a torch.nn.Module", verb="is of type")
        check_choice("layout", layout, LAYOUTS)
        self.module, self.layout = module, layout
        self.parameters: dict[str, torch.Tensor] = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise NetworkError("module", type(module), "one with parameters that are trained", verb="is of type")

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
        check_choice("form", form, tuple(_PRODUCTS))
        with self._evaluated():
            return np.asarray(self._ntk(*self._inputs(x1, x2), form).cpu().numpy())

    def _ntk(self, a: torch.Tensor, b: torch.Tensor | None, form: str) -> torch.Tensor:
        import torch

        with torch.no_grad():
            outputs = self._at(self._free(), a[:1])
        rows = (len(a) + (0 if b is None else len(b))) * outputs.numel()
        numbers = sum(p.numel() for p in self.parameters.values())
        if 2 * rows * numbers * outputs.element_size() > default_memory_limit():
            return self._by_vectors(a, a if b is None else b, form)
        one = self._jacobian(a)
        other = one if b is None else self._jacobian(b)
        block = torch.einsum(_PRODUCTS[form], one, other)
        return block / outputs.shape[1] if form == "mean" else block

    def _jacobian(self, x: torch.Tensor) -> torch.Tensor:
        """∂f(x)/∂θ, (N, outputs, numbers)."""
        import torch

        one = lambda free, example: self._at(free, example[None])[0]
        parts = torch.func.vmap(torch.func.jacrev(one), (None, 0))(self._free(), x)
        return torch.cat([part.reshape(*part.shape[:2], -1) for part in parts.values()], dim=-1).detach()

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

        outputs = torch.func.functional_call(self.module, parameters, (x,))
        if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
            shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
            raise ShapeError("module", shape, "one tensor (N, outputs)", verb="gives")
        return outputs

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
        """All parts of the module in evaluation mode, restored afterwards."""
        trained = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with warnings.catch_warnings():  # PyTorch's forward derivatives use a part of it that is deprecated
                warnings.filterwarnings("ignore", r".*torch\.jit\.script", DeprecationWarning)
                yield
        finally:
            for part in trained:
                part.training = True
