"""What `equitangents audit` is told of outputs and of transforms, as words."""

from __future__ import annotations

from typing import Any

import typer

UNMOVED = ("none", "invariant")


def output_kinds(text: str | None) -> Any:
    """ "vectors,none", "labels:3,0,1,2/1,0,3,2", "boxes=unordered,scores=none" as what `output_action` takes."""
    if text is None:
        return None
    parts: list[str] = []
    for part in text.replace(" ", "").split(","):
        if parts and parts[-1].rpartition("=")[2].startswith("labels:") and part.replace("/", "").isdigit():
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    named = [part.partition("=") for part in parts]
    if all(equals for _, equals, _ in named):
        return {name: _output_kind(kind) for name, _, kind in named}
    if any(equals for _, equals, _ in named):
        raise typer.BadParameter("expected a kind for each output, all with NAME= or none", param_hint="--outputs")
    kinds = [_output_kind(part) for part in parts]
    return kinds[0] if len(kinds) == 1 else tuple(kinds)


def _output_kind(text: str) -> Any:
    """One output's kind; "@1" after it: its batch is along axis 1."""
    kind, at, axis = text.partition("@")
    if at:
        from equitangents.audit.contract.trees import Batch

        if not axis.isdigit():
            raise typer.BadParameter(f"expected KIND@AXIS, such as vectors@1; found {text}", param_hint="--outputs")
        return Batch(_output_kind(kind), int(axis))
    if kind.startswith("unordered"):
        from equitangents.audit.contract.unordered import parse

        return parse(kind)
    if not kind.startswith("labels:"):
        return None if kind in UNMOVED else kind
    from equitangents.audit.contract.labels import Labels

    try:
        rows = [[int(c) for c in row.split(",")] for row in kind.removeprefix("labels:").split("/")]
    except ValueError:
        raise typer.BadParameter(
            f"expected labels:3,0,1,2, where each class goes; found {text}", param_hint="--outputs"
        ) from None
    return Labels(rows)


def transforms(texts: list[str] | None, trust_imports: Any) -> Any:
    """ "brightness:0.5..1.5", "gain:0.5,2", "module:function:0..1:5" as transforms by name; None of none.

    `trust_imports(spec)` imports a function that is named by its module.
    """
    from equitangents.audit.contract.changes import Transform
    from equitangents.audit.contract.named_changes import CHANGES

    found = {}
    for text in texts or []:
        words = text.split(":")
        own = words[0] not in CHANGES
        head = 2 if own else 1
        if len(words) not in (head + 1, head + 2) or (own and len(words) < 3):
            raise typer.BadParameter(
                f"expected NAME:LOW..HIGH, NAME:LOW..HIGH:COUNT or NAME:S,S,… with one of {', '.join(CHANGES)} or "
                f"package.module:function as NAME; found {text}",
                param_hint="--transform",
            )
        fn: Any = trust_imports(":".join(words[:2])) if own else words[0]
        name = words[1] if own else words[0]
        if name in found:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--transform")
        found[name] = Transform(fn, _strengths(words[head:], text), name=name)
    return found or None


_COUNT = 9


def _strengths(words: list[str], text: str) -> list[float]:
    low, dots, high = words[0].partition("..")
    try:
        if not dots:
            if len(words) > 1:
                raise ValueError
            return [float(s) for s in words[0].split(",")]
        a, b, n = float(low), float(high), int(words[1]) if len(words) > 1 else _COUNT
        if n < 2 or not a < b:
            raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"expected strengths LOW..HIGH, LOW..HIGH:COUNT or S,S,…; found {text}", param_hint="--transform"
        ) from None
    return [round(a + (b - a) * i / (n - 1), 12) for i in range(n)]
