"""The model of an audit with a remedy, in the form that it has itself: a function, a PyTorch module, an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from equitangents._types import AnyAction, FileName
from equitangents.audit.adapters import Model
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import Actions
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.audit.measure.averaging import Averaged, Canonicalised, GroupMaps, group_maps
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.keywords import meant

Form = Literal["function", "module", "onnx"]
NAMES = {"average": Averaged, "canonicalise": Canonicalised}


@dataclass(frozen=True, eq=False)
class Remedies:
    """Makes models with remedies out of an audit's own."""

    model: Model
    contract: Contract
    actions: Actions
    classes: bool
    x: Inputs
    output_shapes: Sequence[tuple[int, ...]]
    output_action: AnyAction
    output_axes: tuple[int, ...]
    """Where the model has the batch of every output."""

    def make(self, name: str, path: FileName | None = None, form: Form | None = None) -> Any:
        """The remedy `name`; see `AuditReport.remedy`."""
        name = {"canonicalize": "canonicalise"}.get(name, name)
        if name not in NAMES:
            raise InvalidArgumentError(
                f"remedy is {name!r}{meant(str(name), list(NAMES))}; expected {' or '.join(map(repr, NAMES))}"
            )
        if form not in (None, "function", "module", "onnx"):
            raise InvalidArgumentError(f"form is {form!r}; expected 'function', 'module' or 'onnx'")
        module, source = getattr(self.model, "module", None), getattr(self.model, "path", None)
        if path is not None and form not in (None, "onnx"):
            raise InvalidArgumentError("path is for form='onnx' alone")
        if form is None:
            form = "onnx" if path is not None else "module" if module is not None else "function"
        no_mean = self.classes and name == "average"
        function = NAMES[name](self.model, self.contract, self.actions, no_mean, self.x.axes, self.output_action)
        if form == "function":
            return function
        if self.model.select is not None:
            raise InvalidArgumentError("one of several outputs was audited (select=); take form='function'")
        if form == "module":
            if module is None:
                raise InvalidTypeError(f"{self.model.name} is no PyTorch module; leave form out")
            from equitangents.audit.measure import remedied_torch as made

            made.check_flat(self.x.structure)
            kind = made.AveragedModule if name == "average" else made.CanonicalisedModule
            return made.remedied(kind, module, self._maps())
        if name != "average":
            raise InvalidArgumentError("only the average can be had as an ONNX file; leave path out")
        if source is None:
            raise InvalidTypeError(f"{self.model.name} is no ONNX file; leave path and form out")
        if path is None:
            raise InvalidArgumentError("path is None; say where the ONNX file is written")
        from equitangents.audit.measure.remedied_onnx import averaged_file

        return averaged_file(source, self._names(), self._maps(), Path(path))

    def _maps(self) -> GroupMaps:
        maps = group_maps(self.contract, self.x.leaves, self.actions, self.output_shapes)
        axes = self.x.axes or (0,) * len(self.x.leaves)
        return replace(maps, input_axes=list(axes), output_axes=list(self.output_axes))

    def _names(self) -> list[str]:
        """The file's inputs in the order of the arrays."""
        if any(isinstance(leaf, Shared) for leaf in self.x.leaves):
            raise InvalidArgumentError("some input is Shared; take form='function'")
        names = list(self.model.input_names)  # type: ignore[attr-defined]
        by_name = any(name.startswith("x['") for name in self.x.names)
        return sorted(names) if by_name else names
