"""A badge for a README: a flat SVG that needs nothing else, or the JSON that shields.io's endpoint badges read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from equitangents._types import FileName

COLOURS = {"holds": "#2e7d32", "fails": "#c62828", "undecided": "#8a6d00"}
_ENDPOINT = {"holds": "brightgreen", "fails": "red", "undecided": "yellow"}
_NARROW, _WIDE = " .,:;|!'()[]/fijlrtI1", "mwMW%≤≥→"


def as_json(label: str, message: str, state: str) -> str:
    """The endpoint's object (schemaVersion 1)."""
    said: dict[str, Any] = {"schemaVersion": 1, "label": label, "message": message, "color": _ENDPOINT[state]}
    return json.dumps(said, ensure_ascii=False) + "\n"


def as_svg(label: str, message: str, state: str) -> str:
    """Two boxes side by side, 20 pixels high, as wide as their words."""
    left, right = _width(label), _width(message)
    texts = "".join(
        f'<text x="{x:g}" y="14" textLength="{width - 10:g}" lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
        for x, width, words in ((left / 2, left, label), (left + right / 2, right, message))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right:g}" height="20" role="img" '
        f"aria-label={quoteattr(f'{label}: {message}')}><title>{escape(f'{label}: {message}')}</title>"
        f'<clipPath id="r"><rect width="{left + right:g}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left:g}" height="20" fill="#444"/>'
        f'<rect x="{left:g}" width="{right:g}" height="20" fill="{COLOURS[state]}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">'
        f"{texts}</g></svg>\n"
    )


def badge_text(path: FileName | None, label: str, message: str, state: str) -> str:
    """JSON for a path that ends in .json, SVG for all others."""
    as_text = as_json if path is not None and Path(path).suffix.lower() == ".json" else as_svg
    return as_text(label, message, state)


def _width(words: str) -> float:
    """Pixels of some words in Verdana of 11 pixels, about, and of the space around them."""
    return 10 + sum(4.0 if c in _NARROW else 9.5 if c in _WIDE else 6.9 for c in words)
