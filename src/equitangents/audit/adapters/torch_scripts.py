"""TorchScript: modules of torch.jit.script and torch.jit.trace, and the archives that torch.jit.save writes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from equitangents.audit.adapters.model import Keep
from equitangents.audit.adapters.optional import require
from equitangents.audit.adapters.torch_modules import TorchModel
from equitangents.errors import NetworkError


@final
class ScriptModel(TorchModel):
    """A compiled program: its types are written into it, and it calls its modules where nobody sees them."""

    def __init__(self, module: Any, name: str | None = None):
        super().__init__(module, name or getattr(module, "original_name", None))

    def double(self) -> None:
        """Nothing: a program keeps its precision."""

    def trace(self, x: Any, keep: Keep = np.array) -> None:
        """Nothing: TorchScript runs no hooks."""

    def variants(self) -> Iterator[tuple[str, str, TorchModel]]:
        """No variants: a program cannot be changed."""
        return iter(())


def load_script(path: str) -> ScriptModel:
    """The module in an archive of torch.jit.save, on the CPU."""
    torch = require("torch", "torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch would rather have torch.export
            return ScriptModel(torch.jit.load(path, map_location="cpu"), path)
    except Exception as error:  # whatever the archive's reader raises
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise NetworkError(f"{path} is not a program of torch.jit.save: {said}") from None
