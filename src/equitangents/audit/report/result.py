"""The report of an audit: what was found, one sentence about it, and the ways to write it down."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.audit.report.sections import (
    Checkpoint,
    ContractSection,
    DataSection,
    ElementResult,
    EnsembleSection,
    FloatFloor,
    Headline,
    IrrepSection,
    LayerSection,
    LieResult,
    Missing,
    ModelSection,
    OrbitSection,
    RelativeSection,
    Remedy,
    SetResult,
    Settings,
    Spread,
    Timing,
    Witness,
)
from equitangents.errors import InvalidArgumentError

FORMAT: Literal["equitangents.audit/1"] = "equitangents.audit/1"
Verdict = Literal["equivariant", "equivariant within tolerance", "broken", "stochastic", "undecided"]


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """Everything that an audit found; made by `equitangents.audit`, written by `to_json`, `to_html`, `to_markdown`.

    Lists and numbers of the JSON are the attributes here, under the same names. `errors` and `floors` hold the table
    behind them, one row an element, one column an input, and are not written.
    """

    format: Literal["equitangents.audit/1"]
    verdict: Verdict
    """"equivariant": every element at its floor; "equivariant within tolerance": above it, and for no element above the
    tolerance that was given; "broken": some element is above its floor, and above the tolerance; "stochastic": the
    model is random, and its violation is no larger than its noise; "undecided": an interval holds the floor or the
    tolerance, interpolation hides too much, or all outputs vanish."""
    sentence: str
    """The finding in one sentence."""
    contract: ContractSection
    model: ModelSection
    error: Spread
    """Relative to ‖f(x)‖, over all inputs and elements, the identity left out."""
    floor: float
    """Mean over elements of their floors, relative to ‖f(x)‖."""
    elements: list[ElementResult]
    float_floor: FloatFloor
    orbit: OrbitSection
    relative: RelativeSection
    sets: list[SetResult]
    """The data first."""
    lie: list[LieResult]
    irreps: IrrepSection | None
    layers: LayerSection | None
    ensemble: EnsembleSection | None
    data: DataSection | None
    remedies: list[Remedy]
    checkpoints: list[Checkpoint]
    witnesses: list[Witness]
    """The worst first."""
    missing: list[Missing]
    settings: Settings
    versions: dict[str, str]
    timing: Timing
    citations: list[str]
    """BibTeX of the methods that this audit used."""
    errors: Float[np.ndarray, "elements inputs"] = field(metadata={"json": False})
    floors: Float[np.ndarray, "elements floor_inputs"] = field(metadata={"json": False})
    parameters: list[Any] = field(metadata={"json": False})
    """The elements themselves, as the actions take them."""
    partial: bool = False
    """True: the audit was interrupted; the report holds what was measured until then, and `missing` says what not."""
    headline: Headline | None = None
    """The error that the sentence and the verdict use, and its unit."""

    def summary(self) -> str:
        """The finding in a few lines of plain text, the one sentence first."""
        from equitangents.audit.report.text import summary

        return summary(self)

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes, as plain values; numbers that are not finite are None."""
        return _plain(self)

    def to_json(self, path: Any) -> Path:
        """Write the report as JSON; `equitangents.audit.report.schema()` says what it holds. Returns the path."""
        return write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

    def to_markdown(self, path: Any = None) -> str:
        """The report as Markdown that GitHub renders, also written to `path` if one is given."""
        from equitangents.audit.report.markdown import markdown

        text = markdown(self)
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: Any) -> Path:
        """Write the report as one HTML file that needs nothing else. Returns the path."""
        from equitangents.audit.report.page import html

        return write_text(path, html(self))

    def bibtex(self) -> str:
        """What to cite, as BibTeX."""
        return "\n\n".join(self.citations) + "\n"

    def __repr__(self) -> str:
        return f"<audit: {self.sentence}>"


def write_text(path: Any, text: str) -> Path:
    """Write a file, or raise InvalidArgumentError that names `path`."""
    path = Path(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(f"path is {str(path)!r}, which cannot be written: {error.strerror}") from None
    return path


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("json", True)}
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
