"""Makes codes.hpp, the numbers of src/equitangents/kernels/engines/codes.py in C++, when CMake configures the build.

`python native/tools/codes.py CODES_PY CODES_HPP`; a header that would not change is left alone,
and nothing is built again.
"""

from __future__ import annotations

import runpy
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any


def header(codes: dict[str, Any]) -> str:
    """The text of the header."""
    lines = [
        "// Made by native/tools/codes.py of kernels/engines/codes.py.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
    ]
    lines += ["namespace eqt {", ""]
    for name, value in codes.items():
        if isinstance(value, type) and issubclass(value, IntEnum) and value is not IntEnum:
            members = ", ".join(f"{kind.name.lower()} = {kind.value}" for kind in value)
            lines += [f"enum class {name} : int32_t {{ {members} }};"]
        elif isinstance(value, int):
            lines += [f"constexpr {'int64_t' if name.endswith('BYTES') else 'int'} k{_words(name)} = {value};"]
        elif isinstance(value, dict) and name.isupper():
            lines += _table(name, value)
    return "\n".join([*lines, "", "}  // namespace eqt", ""])


def _table(name: str, values: dict[IntEnum, int]) -> list[str]:
    kind = type(next(iter(values))).__name__
    cases = [f"    case {kind}::{key.name.lower()}: return {value};" for key, value in values.items()]
    return [
        f"constexpr int {name.lower()}({kind} kind) {{",
        "  switch (kind) {",
        *cases,
        "    default: return 0;",
        "  }",
        "}",
    ]


def _words(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def main(source: str, target: str) -> None:
    """Write the header, if it is not as it should be."""
    text, place = header(runpy.run_path(source)), Path(target)
    if not place.exists() or place.read_text(encoding="utf-8") != text:
        place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
