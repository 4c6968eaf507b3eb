"""Outputs that move with their inputs: masks and images, flows on a grid, the group element that turned a template.

Each part is measured by itself, with settings of its own; a preset chooses the part: "desk" is that of masks,
"flows-desk" that of flows, "turns-desk" that of turned templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from equitangents_studies.framework.claims import Claim
from equitangents_studies.framework.study import Presentation, RunFolder, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents_studies.moving_outputs import flows, masks, turns

_PARTS: dict[type, ModuleType] = {part.Settings: part for part in (masks, flows, turns)}
PRESETS: dict[str, Any] = {
    **masks.PRESETS,
    **{f"flows-{name}": settings for name, settings in flows.PRESETS.items()},
    **{f"turns-{name}": settings for name, settings in turns.PRESETS.items()},
}


def check_settings(settings: Any, data_dir: Path | None) -> None:
    """As the part does."""
    _PARTS[type(settings)].check_settings(settings, data_dir)


def measure(settings: Any, folder: RunFolder) -> Any:
    """What the part measures."""
    return _PARTS[type(settings)].measure(settings, folder)


def claims(settings: Any, results: Any) -> Sequence[Claim]:
    """What the part claims."""
    found: Sequence[Claim] = _PARTS[type(settings)].claims(settings, results)
    return found


def present(settings: Any, results: Any, folder: RunFolder) -> Presentation:
    """Tables and figures of the part."""
    shown: Presentation = _PARTS[type(settings)].present(settings, results, folder)
    return shown


STUDY: Study[Any, Any] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings)
