"""What a PyTorch module holds: activations alive at once, and its layers in double precision one at a time."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, complex128, float64, inference_mode, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from equitangents.audit.adapters.footprints import Footprint


class _Alive(TorchDispatchMode):
    """A context that counts the bytes of all storages that operations make, until these are freed."""

    def __init__(self, known: list[Tensor]):
        super().__init__()
        self.now = self.most = 0
        self._seen = {t.untyped_storage()._cdata for t in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether PyTorch keeps its compiler away from this class, for which it imports it: that takes seconds."""
        return "torch._dynamo" in sys.modules

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return made

    def _add(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


def footprint(module: nn.Module, run: Callable[[], Any]) -> Footprint:
    """The footprint of a module, counted while `run` gives it one input."""
    held = [*module.parameters(), *module.buffers()]
    with inference_mode(), _Alive(held) as alive:
        run()
    return Footprint(sum(t.numel() * t.element_size() for t in held), alive.most, evaluated=1)


@contextlib.contextmanager
def layerwise(module: nn.Module) -> Iterator[None]:
    """A context in which every submodule computes in double precision on the CPU, with copies made for its call alone.

    So no more than the largest layer is held twice. Weights that a module reads off another one stay as they are:
    PyTorch then raises, as the types do not fit.
    """
    before: dict[int, list[list[tuple[dict[str, Any], dict[str, Any]]]]] = {}

    def widen(m: nn.Module, *_: Any) -> None:
        own = [(tensors, dict(tensors)) for tensors in (m._parameters, m._buffers)]
        before.setdefault(id(m), []).append(own)
        for tensors, narrow in own:
            tensors.update({name: _wide(t) for name, t in narrow.items()})

    def back(m: nn.Module, *_: Any) -> None:
        if before.get(id(m)):
            for tensors, own in before[id(m)].pop():
                tensors.update(own)

    handles = []
    for m in module.modules():
        handles.append(m.register_forward_pre_hook(widen, prepend=True))
        handles.append(m.register_forward_hook(back, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for m in module.modules():
            while before.get(id(m)):
                back(m)


def _wide(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    kind = {True: complex128, False: float64 if tensor.is_floating_point() else tensor.dtype}[tensor.is_complex()]
    return tensor.to("cpu", kind)
