"""PyTorch modules, programs of torch.export and TorchScript: on their own device, in evaluation mode, no gradients."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from equitangents._types import DType, Tree
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced, arguments, first_line, plain
from equitangents.audit.contract.trees import on_host
from equitangents.errors import InvalidArgumentError, NetworkError, require
from equitangents.files import file_bytes
from equitangents.foreign_files import WHY
from equitangents.memory import process_memory


class TorchModel(Model):
    """A module; a tuple of inputs goes in as several arguments, a dictionary as keywords.

    Real numbers become the type of the module's parameters, and go to their device; whole numbers become int64.
    `compiled`: types, strides and paddings are written into it, so that it has no double precision and no variants.
    """

    kind = "torch"
    streams = True
    states_layout = True

    def __init__(self, module: Any, name: str | None = None, fixed_batch: int | None = None, compiled: bool = False):
        self.torch = require("torch", "torch", "a PyTorch model")
        self.module = module
        self._inside = getattr(module, "_orig_mod", module)  # what torch.compile compiled
        self.name = name or type(self._inside).__name__
        self.fixed_batch, self.compiled = fixed_batch, compiled
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
        """A copy of the module in double precision, on the CPU."""
        if self.compiled:
            return None
        module = functools.cache(lambda: copy.deepcopy(self._inside).to("cpu").double())

        def run(x: Tree) -> Tree:
            with self.torch.inference_mode():
                return jax.tree.map(on_host, plain(_call(module(), self._tensors(x, self.torch.float64, "cpu"))))

        return run

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Input and output of every module without children, in the order of the calls; None for TorchScript."""
        if isinstance(self._inside, self.torch.jit.ScriptModule):
            return None
        traced = Traced(keep)
        read: list[Any] = []

        def hook(name: str) -> Callable[..., None]:
            return lambda module, inputs, output: traced.add(name, _kind(module), read.pop(), output)

        named = [(name, m) for name, m in self._inside.named_modules() if name and not list(m.children())]
        handles = [module.register_forward_hook(hook(name)) for name, module in named]
        handles += [m.register_forward_pre_hook(lambda _, inputs: read.append(traced.kept(inputs))) for _, m in named]
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


def _kind(module: Any) -> str:
    """The class of a module; of one in an exported program, which has lost it, its first operation."""
    graph = getattr(module, "graph", None)
    made = [node.target for node in getattr(graph, "nodes", ()) if node.op == "call_function"]
    return str(getattr(made[0], "__name__", made[0])).partition(".")[0] if made else type(module).__name__


def _call(module: Any, x: Tree) -> Tree:
    return module(**x) if isinstance(x, dict) else module(*arguments(x))


def of_program(program: Any, name: str = "exported program", fixed_batch: int | None = None) -> TorchModel:
    """The adapter of a program of torch.export, with the modules that it was exported from as layers."""
    torch = require("torch", "torch", "a PyTorch model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PyTorch's own calls
        model = TorchModel(torch.export.unflatten(program), name, fixed_batch, compiled=True)
    model.least_batch = 2  # sizes that may be any are at least that
    return model


def of_script(module: Any, name: str | None = None) -> TorchModel:
    """The adapter of TorchScript, which calls its modules where nobody sees them."""
    return TorchModel(module, name or getattr(module, "original_name", None), compiled=True)


def load_exported(path: str, trust: bool = False) -> TorchModel:
    """A program saved by `torch.export.save`, e.g. file.pt2; refused if it holds pickles that run code."""
    torch = require("torch", "torch", "a PyTorch model")
    content = file_bytes(Path(path), process_memory())
    if not trust:
        check_archive(torch, path, content)
    try:
        program = torch.export.load(io.BytesIO(content))
    except Exception as error:  # whatever the archive's reader raises
        raise NetworkError("model", str(path), "a program of torch.export.save", first_line(error)) from None
    given = set(program.graph_signature.user_inputs)
    sizes = [
        node.meta["val"].shape[0]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in given and len(getattr(node.meta.get("val"), "shape", ()))
    ]
    fixed = [s for s in sizes if isinstance(s, int)]
    return of_program(program, path, fixed[0] if fixed else None)


def check_archive(torch: ModuleType, path: str, content: bytes) -> None:
    """Raise InvalidArgumentError if PyTorch would unpickle arbitrary objects from this archive.

    Tensors in `.pt` entries must load with weights_only=True; no weight may be stored as a pickle; no constant may be
    an object.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = archive.namelist()
    except zipfile.BadZipFile:
        raise NetworkError("model", str(path), "a program of torch.export.save", "it is no archive") from None
    for name in names:
        stem = name.rpartition("/")[2]
        unsafe = stem.startswith(("custom_obj", "opaque_obj"))
        if stem.endswith("_config.json"):
            unsafe = any(entry.get("use_pickle") for entry in json.loads(archive.read(name))["config"].values())
        elif stem.endswith(".pt") and archive.getinfo(name).file_size:
            try:
                torch.load(io.BytesIO(archive.read(name)), weights_only=True)
            except Exception:  # anything but plain tensors
                unsafe = True
        if unsafe:
            raise InvalidArgumentError("model", path, f"no entry as {name!r}", WHY)


def load_script(path: str, trust: bool = False) -> TorchModel:
    """The module in an archive of torch.jit.save, on the CPU; it runs no code of Python's, trusted or not."""
    torch = require("torch", "torch", "a PyTorch model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch would rather have torch.export
            return of_script(torch.jit.load(path, map_location="cpu"), path)
    except Exception as error:  # whatever the archive's reader raises
        raise NetworkError("model", str(path), "a program of torch.jit.save", first_line(error)) from None
