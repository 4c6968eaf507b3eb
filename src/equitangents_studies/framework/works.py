"""The works that the studies reproduce, of `works.bib`: claims name them as their source, pages cite them."""

from __future__ import annotations

import re
from pathlib import Path


class Work(str):
    """The place of a work, "arXiv 2403.03103", read off its `bibtex`, with which it is cited.

    >>> EMERGENT_EQUIVARIANCE
    'arXiv 2403.03103'
    """

    bibtex: str

    def __new__(cls, bibtex: str) -> Work:  # noqa: D102
        (eprint,) = re.findall(r"^ *eprint *= {(.*)},$", bibtex, re.M)
        made = super().__new__(cls, f"arXiv {eprint}")
        made.bibtex = bibtex
        return made

    def __getnewargs__(self) -> tuple[str]:
        return (self.bibtex,)


_ENTRIES = Path(__file__).with_name("works.bib").read_text(encoding="utf-8").strip().split("\n\n")
_WORKS = {entry[entry.index("{") + 1 : entry.index(",")]: Work(entry) for entry in _ENTRIES}

EMERGENT_EQUIVARIANCE = _WORKS["gerken2024emergent"]
BEYOND_THE_LIMIT = _WORKS["nordenfors2024ensembles"]
EQUIVARIANT_KERNELS = _WORKS["misof2024equivariant"]
SYNERGY_AND_SYMMETRY = _WORKS["xiao2022synergy"]
OMNISCIENT_RISK = _WORKS["simon2023eigenlearning"]
