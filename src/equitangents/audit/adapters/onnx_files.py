"""ONNX files, by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from equitangents.audit.adapters.folding import Folder
from equitangents.audit.adapters.footprints import Footprint
from equitangents.audit.adapters.model import Keep, LayerTrace, Model
from equitangents.audit.adapters.onnx_graphs import footprint
from equitangents.audit.adapters.onnx_layers import SILENT, OnnxLayers, quiet
from equitangents.audit.adapters.optional import require
from equitangents.audit.contract.layouts import Sizes
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
}


@final
class OnnxModel(Model):
    """An inference session; inputs in the file's order, or by name from a dictionary; outputs by name if several."""

    kind = "onnx"
    streams = True
    states_layout = True

    def __init__(self, session: Any, name: str, path: str | None = None):
        self.session, self.name, self.path = session, name, path
        self._layers: dict[bool, OnnxLayers] = {}
        self._inputs = session.get_inputs()
        self._outputs = [o.name for o in session.get_outputs()]
        self.input_names = [i.name for i in self._inputs]
        self.fixed_batch = self._stated(0)
        self.device = "cpu" if session.get_providers() == ["CPUExecutionProvider"] else session.get_providers()[0]

    def batch_along(self, x: Any, axes: Sequence[int]) -> int | None:
        """The size that the file states for the batch of its first input, if it is a number."""
        return self._stated(self._along(x, axes).get(self.input_names[0], 0))

    def check_inputs(self, x: Any, axes: Sequence[int] = ()) -> None:
        """Raise unless names, ranks and sizes are those that the file states; the batch may have any size."""
        along = self._along(x, axes)
        for declared, a in zip(self._inputs, self._arrays(x).values(), strict=True):
            wanted, given, axis = declared.shape, np.shape(a), along.get(declared.name, 0)
            if wanted is None or _fits(wanted, given, axis):
                continue
            sizes = [str(n) if isinstance(n, int) else "any" for n in wanted]
            says = ", ".join("N" if k == axis else size for k, size in enumerate(sizes))
            hint = ""
            if len(given) == 4 and _fits(wanted, (given[0], given[3], *given[1:3])):
                hint = "; the file reads channels first: numpy.moveaxis(x, -1, 1), with layout='channels_first'"
            elif len(given) == 4 and _fits(wanted, (given[0], *given[2:], given[1])):
                hint = "; the file reads channels last: numpy.moveaxis(x, 1, -1), with layout='channels_last'"
            raise ShapeError(f"x has shape {given}; {self.name} expects ({says}) for {declared.name!r}{hint}")

    def stated_shapes(self, x: Any, axes: Sequence[int] = ()) -> list[Sizes | None]:
        """The shapes that the file states, in the order of x; of dictionaries in that of their sorted names."""
        along, shapes = self._along(x, axes), {i.name: i.shape for i in self._inputs}
        names = sorted(x) if isinstance(x, dict) else self.input_names
        return [_batch_first(shapes.get(name), along.get(name, 0)) for name in names]

    def run(self, x: Any) -> Any:
        """What the session returns: an array, or several by name."""
        values = self.session.run(None, self._feed(x), quiet(require("onnxruntime", "onnx")))
        return values[0] if len(values) == 1 else dict(zip(self._outputs, values, strict=True))

    def footprint(self, x: Any) -> Footprint | None:
        """What the file's graph holds for one input; None for a session, or where a size is not known."""
        if self.path is None:
            return None
        return footprint(self.path, {name: np.shape(a) for name, a in self._arrays(x).items()})

    def trace(self, x: Any, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Every operation of the file; None for a session, which has its graph no more."""
        if self.path is None:
            return None
        fold = isinstance(keep, Folder)
        if fold not in self._layers:
            self._layers = {fold: OnnxLayers(self.path, fold)}
        return self._layers[fold].trace(self._feed(x), keep)

    def _stated(self, axis: int) -> int | None:
        first = self._inputs[0].shape
        return first[axis] if first and len(first) > axis and isinstance(first[axis], int) else None

    def _along(self, x: Any, axes: Sequence[int]) -> dict[str, int]:
        """Where every input has its batch, by name; of dictionaries in the order of their sorted names."""
        return dict(zip(sorted(x) if isinstance(x, dict) else self.input_names, axes, strict=False))

    def _feed(self, x: Any) -> dict[str, np.ndarray]:
        arrays = self._arrays(x)
        return {i.name: np.ascontiguousarray(arrays[i.name], _TYPES.get(i.type, np.float32)) for i in self._inputs}

    def _arrays(self, x: Any) -> dict[str, Any]:
        """The inputs by name, in the file's order."""
        names = [i.name for i in self._inputs]
        arrays = x if isinstance(x, dict) else dict(zip(names, x if isinstance(x, tuple) else (x,), strict=False))
        missing = [name for name in names if name not in arrays]
        if missing or len(arrays) != len(names):
            raise InvalidArgumentError(f"the file reads {names}; x has {sorted(arrays)}")
        return {name: arrays[name] for name in names}


def _fits(wanted: list[Any], given: tuple[int, ...], axis: int = 0) -> bool:
    """Whether an array of shape `given` is what the file states, but for the axis of its batch."""
    same = [not isinstance(w, int) or w == g for w, g in zip(wanted, given, strict=False)]
    return len(wanted) == len(given) and all(fits or k == axis for k, fits in enumerate(same))


def _batch_first(shape: list[Any] | None, axis: int) -> list[Any] | None:
    return shape if not shape else [*shape[axis : axis + 1], *shape[:axis], *shape[axis + 1 :]]


def load_onnx(path: str) -> OnnxModel:
    """The model in an ONNX file, on the CPU."""
    runtime = require("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = SILENT
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no public class
        raise NetworkError(f"{path} cannot be loaded by onnxruntime: {str(error).splitlines()[0]}") from None
    return OnnxModel(session, path, path)
