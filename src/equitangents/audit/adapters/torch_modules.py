"""PyTorch modules: on their own device, in evaluation mode, without gradients."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jax
import numpy as np

from equitangents._types import DType, Tree
from equitangents.audit.adapters.footprints import Footprint
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced, arguments
from equitangents.audit.adapters.outputs import plain
from equitangents.audit.contract.trees import on_host, to_numpy
from equitangents.extras import require

HALF = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


class TorchModel(Model):
    """A module, compiled or not; a tuple of inputs goes in as several arguments, a dictionary as keywords.

    Real numbers become the type of the module's parameters, and go to their device; whole numbers become int64.
    """

    kind = "torch"
    streams = True
    states_layout = True
    compiled = False
    """Whether types, strides and paddings are written into it: then there is no double precision, and no variants."""

    def __init__(self, module: Any, name: str | None = None, fixed_batch: int | None = None):
        self.torch = require("torch", "torch", "a PyTorch model")
        self.module = module
        self._inside = getattr(module, "_orig_mod", module)  # what torch.compile compiled
        self.name = name or type(self._inside).__name__
        self.fixed_batch = fixed_batch
        tensors = [*module.parameters(), *module.buffers()]
        first = next((t for t in tensors if t.is_floating_point()), None)
        self._dtype = self.torch.float32 if first is None else first.dtype
        self._device = self.torch.device("cpu") if first is None else first.device
        self.device = str(self._device)

    def run(self, x: Tree) -> Tree:
        """The module's output, on the host."""
        with self.torch.inference_mode():
            return jax.tree.map(on_host, plain(_call(self.module, self._tensors(x, self._dtype))))

    def double(self) -> Callable[[Any], Any] | None:
        """The module in double precision, layer by layer; a copy of it where it reads weights of other modules."""
        if self.compiled:
            return None
        from equitangents.audit.adapters.torch_memory import layerwise

        twins: list[Any] = []

        def run(x: Tree) -> Tree:
            with self.torch.inference_mode():
                tensors = self._tensors(x, self.torch.float64, "cpu")
                if not twins:
                    try:
                        with layerwise(self._inside):
                            return jax.tree.map(on_host, plain(_call(self._inside, tensors)))
                    except (RuntimeError, TypeError, ValueError):
                        twins.append(copy.deepcopy(self._inside).to("cpu").double())
                return jax.tree.map(on_host, plain(_call(twins[0], tensors)))

        return run

    def footprint(self, x: Tree) -> Footprint | None:
        """What the module holds for one input, counted while it is evaluated."""
        from equitangents.audit.adapters.torch_memory import footprint

        tensors = self._tensors(x, self._dtype)
        return footprint(self._inside, lambda: _call(self._inside, tensors))

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Input and output of every module without children, by hooks, in order of execution."""
        traced = Traced()
        read: list[Any] = []

        def note_input(module: Any, inputs: Any) -> None:
            tensor = _first_tensor(self.torch, inputs)
            read.append(None if tensor is None else keep(to_numpy(tensor)))  # now: a layer may work in place

        def hook(name: str) -> Callable[..., None]:
            def note(module: Any, inputs: Any, output: Any) -> None:
                before, made = read.pop(), _first_tensor(self.torch, output)
                if made is None or made.ndim < 2:
                    return
                traced.add(name, type(module).__name__, before, keep(to_numpy(made)), rounding(made))

            return note

        named = [(name, m) for name, m in self._inside.named_modules() if name and not list(m.children())]
        handles = [module.register_forward_hook(hook(name)) for name, module in named]
        handles += [module.register_forward_pre_hook(note_input) for _, module in named]
        try:
            with self.torch.inference_mode():
                _call(self._inside, self._tensors(x, self._dtype))
        finally:
            for handle in handles:
                handle.remove()
        return traced.layers

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Evaluation mode, and every submodule back in its own mode afterwards."""
        modes = {m: m.training for m in self.module.modules()}
        with contextlib.suppress(NotImplementedError):  # exported programs have one mode
            self.module.eval()
        try:
            yield
        finally:
            for m, training in modes.items():
                m.training = training

    def _tensors(self, x: Tree, dtype: DType, device: Any = None) -> Tree:
        def tensor(a: Any) -> Any:
            a = np.ascontiguousarray(a)
            if a.dtype.kind == "f":
                return self.torch.from_numpy(a).to(device=device or self._device, dtype=dtype)
            t = self.torch.from_numpy(a.astype(np.int64) if a.dtype.kind in "iu" else a)
            return t.to(device or self._device)

        return jax.tree.map(tensor, x)


def rounding(tensor: Any) -> float:
    """The rounding of numbers in half precision, which leave the device in single; 0 for others."""
    return HALF.get(str(tensor.dtype).removeprefix("torch."), 0.0)


def _call(module: Any, x: Tree) -> Tree:
    return module(**x) if isinstance(x, dict) else module(*arguments(x))


def _first_tensor(torch: ModuleType, value: Tree) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else None
    value = plain(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return next((t for t in (_first_tensor(torch, v) for v in value) if t is not None), None)
    return None
