"""The index of the gallery, made of what the audits found and of the texts."""

from __future__ import annotations

import json
from pathlib import Path

from tools.audit_gallery.texts import TEXTS

_HEAD = """# Audited models

<!-- made by python -m tools.audit_gallery -->

Each page is a self-contained file, written by `python -m tools.audit_gallery`. How to read them:
[models](../guide/audit.md#how-to-read-the-page) and [potentials](../guide/audit-potentials.md#how-to-read-it).
"""


def index(folder: Path) -> str:
    """One section a model: its finding, its page, and what was learned."""
    parts = [_HEAD]
    for name, (title, what, learned) in TEXTS.items():
        file = name.replace("_", "-")
        if not (folder / f"{file}.html").exists():
            continue
        found = json.loads((folder / f"{file}.json").read_text(encoding="utf-8"))
        parts.append(
            f'## {title}\n\n{what} <a href="{file}.html">The page</a>.\n\n> {found["first_line"]}\n\n{learned}\n'
        )
    return "\n".join(parts)
