"""An extension of griffe: interpreter sessions in docstrings (>>> ...) become code blocks wherever they stand."""

from __future__ import annotations

import re
from typing import Any

import griffe

SESSION = re.compile(r"(?:^>>>.*\n?(?:^(?!>>>)\S.*\n?|^\s*\.\.\..*\n?)*)+", re.MULTILINE)
SECTION = re.compile(r"^Examples?:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Fences every session of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of `obj`."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """`text` with its sessions fenced and the heading "Example:" dropped."""
    text = SECTION.sub(lambda match: re.sub(r"^ {4}", "", match.group(1), flags=re.MULTILINE), text)
    return SESSION.sub(lambda match: f"\n```pycon\n{match.group().rstrip()}\n```\n", text)
