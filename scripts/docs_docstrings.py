"""Extensions of griffe: sessions in docstrings (>>> ...) become code blocks, callable packages stay packages."""

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


class CallablePackages(griffe.Extension):
    """Leaves `equitangents.audit` to the package of that name, whose pages would not be found otherwise."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Forget the stub's attribute."""
        if attr.path == "equitangents.audit" and attr.parent is not None:
            del attr.parent.members[attr.name]
