"""Compiled PyTorch: programs of torch.export, modules traced by torch.fx, and TorchScript.

Each operation of a graph is seen as a layer; TorchScript calls its modules where nobody sees them.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np

from equitangents._types import Tree
from equitangents.array_files import WHY
from equitangents.audit.adapters.model import Keep, LayerTrace, arguments
from equitangents.audit.adapters.torch_modules import TorchModel, rounding
from equitangents.audit.contract.trees import to_numpy
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.extras import require
from equitangents.files import file_bytes
from equitangents.memory import process_memory


@final
class TorchGraph(TorchModel):
    """A graph module, each operation of which is a layer."""

    compiled = True

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Every operation on the inputs whose result is real and has a row an input, in the graph's order."""
        graph = self.module.graph
        wanted = [node.name for node in graph.nodes if node.op == "placeholder"]
        tensors = self._tensors(x, self._dtype)
        given = dict(zip(wanted, arguments(tensors), strict=False))
        if isinstance(tensors, dict):
            given = tensors
        if set(given) != set(wanted):
            return None  # a tree of inputs: which placeholder is which is not known
        recorder = _recorder(self.torch, keep)(self.module)
        with self.torch.inference_mode():
            recorder.run(*(given[name] for name in wanted), enable_io_processing=False)
        return recorder.traces


def of_program(program: Any) -> TorchGraph:
    """The adapter of a program that is in memory."""
    return TorchGraph(program.module(), "exported program")


def _recorder(torch: Any, keep: Keep) -> Any:
    """The interpreter's class; made here, as PyTorch is imported only where it is used."""

    class Recorder(torch.fx.Interpreter):
        """Runs a graph node by node, and notes what depends on the inputs."""

        def __init__(self, module: Any):
            super().__init__(module)
            self.traces: list[LayerTrace] = []
            self.rows: int | None = None
            self.moving: set[Any] = set()

        def run_node(self, node: Any) -> Any:
            """The node's value; a layer of the trace if it is features of every input."""
            sources = [n for n in node.all_input_nodes if n in self.moving]
            read = self.env[sources[0]] if sources and node.op != "output" else None
            before = keep(to_numpy(read)) if self._is_features(read) else None  # now: it may work in place
            made = super().run_node(node)
            if node.op == "placeholder":
                if self.rows is None and isinstance(made, torch.Tensor) and made.ndim > 0:
                    self.rows = len(made)
                self.moving.add(node)
            elif sources and node.op != "output":
                self.moving.add(node)
                if self._is_features(made):
                    features = keep(to_numpy(made))
                    self.traces.append(LayerTrace(_name(node), _kind(node), before, features, rounding(made)))
            return made

        def _is_features(self, value: Any) -> bool:
            floating = isinstance(value, torch.Tensor) and value.is_floating_point()
            return floating and value.ndim >= 2 and len(value) == self.rows

    return Recorder


def _name(node: Any) -> str:
    """The module that an operation was part of, and its own name in the graph."""
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return f"{paths[-1]}: {node.name}" if paths and paths[-1] else str(node.name)


def _kind(node: Any) -> str:
    name = getattr(node.target, "__name__", str(node.target))
    return str(name).partition(".")[0]


def load_exported(path: str, trust: bool = False) -> TorchGraph:
    """A program saved by `torch.export.save`, e.g. file.pt2; refused if it holds pickles that run code."""
    torch = require("torch", "torch", "a PyTorch model")
    content = file_bytes(Path(path), process_memory())
    if not trust:
        check_archive(torch, path, content)
    try:
        program = torch.export.load(io.BytesIO(content))
    except Exception as error:  # whatever the archive's reader raises
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise NetworkError(f"{path} is not a program of torch.export.save: {said}") from None
    given = set(program.graph_signature.user_inputs)
    sizes = [
        node.meta["val"].shape[0]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in given and len(getattr(node.meta.get("val"), "shape", ()))
    ]
    fixed = [s for s in sizes if isinstance(s, int)]
    return TorchGraph(program.module(), name=path, fixed_batch=fixed[0] if fixed else None)


def check_archive(torch: ModuleType, path: str, content: bytes) -> None:
    """Raise InvalidArgumentError if PyTorch would unpickle arbitrary objects from this archive.

    Tensors in `.pt` entries must load with weights_only=True; no weight may be stored as a pickle; no constant may be
    an object.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = archive.namelist()
    except zipfile.BadZipFile:
        raise NetworkError(f"{path} is not a program of torch.export.save: not an archive") from None
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
            raise InvalidArgumentError(f"model is {path!r}, which is not loaded for its entry {name!r}: {WHY}")


@final
class ScriptModel(TorchModel):
    """A compiled program: its types are written into it, and it calls its modules where nobody sees them."""

    compiled = True

    def __init__(self, module: Any, name: str | None = None):
        super().__init__(module, name or getattr(module, "original_name", None))

    def trace(self, x: Tree, keep: Keep = np.array) -> None:
        """Nothing: TorchScript runs no hooks."""


def load_script(path: str, trust: bool = False) -> ScriptModel:
    """The module in an archive of torch.jit.save, on the CPU; it runs no code of Python's, trusted or not."""
    torch = require("torch", "torch", "a PyTorch model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch would rather have torch.export
            return ScriptModel(torch.jit.load(path, map_location="cpu"), path)
    except Exception as error:  # whatever the archive's reader raises
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise NetworkError(f"{path} is not a program of torch.jit.save: {said}") from None
