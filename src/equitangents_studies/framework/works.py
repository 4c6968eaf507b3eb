"""The works that the studies reproduce, of `works.bib`: claims name them as their source, pages cite them."""

from __future__ import annotations

import re
from pathlib import Path

_ENTRIES = Path(__file__).with_name("works.bib").read_text(encoding="utf-8").strip().split("\n\n")
_PLACES = [f"arXiv {number}" for entry in _ENTRIES for number in re.findall(r"^ *eprint *= {(.*)},$", entry, re.M)]
BIBTEX = dict(zip(_PLACES, _ENTRIES, strict=True))
"""How each work is cited, by its place, "arXiv 2403.03103"."""

EMERGENT_EQUIVARIANCE = "arXiv 2403.03103"
BEYOND_THE_LIMIT = "arXiv 2410.01452"
EQUIVARIANT_KERNELS = "arXiv 2406.06504"
SYNERGY_AND_SYMMETRY = "arXiv 2207.04612"
OMNISCIENT_RISK = "arXiv 2110.03922"
