"""The JSON schema of a report, read off the classes that make it: types give the structure, docstrings the words."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from equitangents.audit.report.findings import FORMAT, Findings

_NUMBER = {"type": ["number", "null"], "description": "null: not finite"}


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what `Findings.to_json` writes.

    >>> schema()["title"]
    'equitangents.audit/2'
    """
    definitions: dict[str, Any] = {}
    root = _object(Findings, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FORMAT,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _object(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints, words = get_type_hints(cls), _attribute_docstrings(cls)
    properties = {}
    for f in fields(cls):
        if not f.metadata.get("json", True):
            continue
        part = _of_type(hints[f.name], definitions)
        properties[f.name] = {**part, "description": words[f.name]} if f.name in words else part
    return {
        "type": "object",
        "description": " ".join((cls.__doc__ or "").split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # keeps the order of first use out of the recursion
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of_type(part, definitions) for part in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _of_type(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(arguments[1], definitions)}
    simple: dict[Any, dict[str, Any]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: dict(_NUMBER),
    }
    return simple.get(hint, {"type": "null"})


def _attribute_docstrings(cls: type) -> dict[str, str]:
    """The string literal after each annotated attribute."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    words = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            words[statement.target.id] = " ".join(following.value.value.split())
    return words
