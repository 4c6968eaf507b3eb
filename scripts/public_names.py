"""The public names, those of `__all__` of the library and of each room: how many, and who uses which.

They are counted in three parts: what users of the library call; `extending`, what packages built on it need beside; and
the rooms of the package beside it.

A use is a text that reads a name off its room (`nn.Dense`, also under another name of the room in that text) or imports
it from there. `--uses` prints each name with the number of texts by kind; `--unused` those that neither pages, examples
in docstrings, benchmarks nor the package beside the library use; `--also FILE` counts more texts, such as a contract.
A name that is public in two rooms is one name where both are the same object.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import equitangents
from equitangents.beside import ROOMS

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "pages": ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs"),
    "benchmarks": ("benchmarks",),
    "studies": ("src/equitangents_studies",),
    "library": ("src/equitangents",),
    "tests": ("tests",),
}
SUFFIXES = {".py", ".pyi", ".md", ".ipynb"}


def main() -> None:
    """Print the numbers by room, or the names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uses", action="store_true", help="every name, with the number of texts that use it")
    parser.add_argument("--unused", action="store_true", help="names that tests alone or nobody uses")
    parser.add_argument("--also", action="append", default=[], metavar="FILE", help="a text more, of the kind pages")
    arguments = parser.parse_args()
    public = public_names()
    used = uses(public, [Path(file) for file in arguments.also])
    for room, names in public.items():
        print(f"{room or 'equitangents':<14}{len(names):>4}")
        for name in names if arguments.uses or arguments.unused else ():
            count = used[room, name]
            if arguments.uses or not any(count[kind] for kind in ("pages", "benchmarks", "studies")):
                print(f"    {name:<28}" + "".join(f"{kind} {count[kind]:<5}" for kind in KINDS))
    for part, rooms in parts(public).items():
        things = {_key(room, name) for room in rooms for name in public[room]}
        print(f"{part:<22}{sum(len(public[room]) for room in rooms):>4}, of {len(things)} things")


def parts(public: Iterable[str]) -> dict[str, list[str]]:
    """The rooms by whom they are for, and all."""
    beside = [room for room in public if room in ROOMS]
    library = [room for room in public if room not in (*beside, "extending")]
    return {"for users": library, "for packages": ["extending"], "the package beside": beside, "all": list(public)}


def public_names() -> dict[str, list[str]]:
    """By room, the library itself first as ""; rooms are not names."""
    library = [(name, getattr(equitangents, name)) for name in equitangents.__all__]
    rooms = {name: sorted(module.__all__) for name, module in library if isinstance(module, ModuleType)}
    return {"": [name for name, it in library if not isinstance(it, ModuleType)], **rooms}


def _key(room: str, name: str) -> object:
    found = getattr(importlib.import_module(f"equitangents.{room}".rstrip(".")), name)
    return id(found) if callable(found) else (room, name)


def uses(public: dict[str, list[str]], also: list[Path]) -> dict[tuple[str, str], Counter[str]]:
    """How many texts of each kind use (room, name)."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for kind, places in KINDS.items():
        files = {file for place in places for file in _texts(ROOT / place)} | (set(also) if kind == "pages" else set())
        for file in files:
            for used in names_in(file.read_text(encoding="utf-8"), public):
                found[used][kind] += 1
    return found


def _texts(place: Path) -> list[Path]:
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    return [file for file in files if file.suffix in SUFFIXES and file.name not in {"__init__.py", "__init__.pyi"}]


def names_in(text: str, public: dict[str, list[str]]) -> set[tuple[str, str]]:
    """(room, name) of what a text uses."""
    found = set()
    for room, names in public.items():
        called = {room or "equitangents", *([] if room else ["et"])}
        called |= set(re.findall(rf"import (?:equitangents\.)?{room or 'equitangents'} as (\w+)", text))
        called |= set(re.findall(rf"\b(\w+) = (?:et|equitangents)\.{room}\b(?!\.)", text)) if room else set()
        read = set(re.findall(rf"\b(?:{'|'.join(map(re.escape, sorted(called)))})\.(\w+)", text))
        place = f"equitangents.{room}" if room else "equitangents"
        places = rf"(?:{re.escape(place)}|equitangents_studies{re.escape('.' + room if room != 'studies' else '')})"
        for imported in re.findall(rf"from {places} import (\([^)]*\)|[^\n]*)", text):
            read |= set(re.findall(r"\w+", imported))
        found |= {(room, name) for name in names if name in read}
    return found


if __name__ == "__main__":
    main()
