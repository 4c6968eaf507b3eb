"""The rooms of both packages: every sub-package with its size, what it imports, and circles of imports.

`make rooms` prints them. Imports inside functions and under TYPE_CHECKING count too. With `--check` the exit status is
1 if files import one another in a circle that is not in `ALLOWED`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

PACKAGES = ("equitangents", "equitangents_studies")
ALLOWED = (
    # A group has irreps, subgroups and a table of its own kind, each of which is a group's: one concept in five files.
    {"group", "irreps", "regular_representation", "subgroup", "table_group"},
)
# With `--check` rooms of two names may stand in no circle; of those of three (equitangents.kernels.plans) so many may
# import one another.
MOST = 3


def main() -> int:
    """Print the rooms; with `--check`, only circles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look for circles; exit status 1 if there is one")
    parser.add_argument("--depth", type=int, default=2, help="how many names make a room (2: equitangents.kernels)")
    arguments = parser.parse_args()
    imports = import_graph()
    rooms = grouped(imports, arguments.depth)
    if not arguments.check:
        print_rooms(imports, rooms, arguments.depth)
    allowed = [set(circle) for circle in ALLOWED]
    circles = [c for c in strongly_connected(imports) if names_of(c) not in allowed]
    between = strongly_connected(rooms)
    if arguments.check:
        deeper = (c for c in strongly_connected(grouped(imports, 3)) if names_of(c) not in allowed)
        between += [circle for circle in deeper if len(circle) > MOST]
    for circle in between:
        print("circle of rooms: " + ", ".join(short(name) for name in circle))
    for circle in circles:
        print("circle of files: " + ", ".join(short(name) for name in circle))
    if not circles and not between:
        print(f"no circles but {len(ALLOWED)} with a reason (scripts/rooms.py)")
    return 1 if arguments.check and (circles or between) else 0


def names_of(circle: Iterable[str]) -> set[str]:
    """The last part of each name."""
    return {name.rsplit(".", 1)[1] for name in circle}


def import_graph() -> dict[str, set[str]]:
    """Every module with the modules that it imports, anywhere in its text."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    modules = sorted(graph.modules)
    return {name: set(graph.find_modules_directly_imported_by(name)) for name in modules}


def grouped(imports: Mapping[str, set[str]], depth: int) -> dict[str, set[str]]:
    """Every room with the rooms that its modules import; the package itself, a table of contents, is left out."""
    rooms: dict[str, set[str]] = {}
    for name, targets in imports.items():
        room = room_of(name, depth)
        arrows = rooms.setdefault(room, set())
        arrows |= {room_of(target, depth) for target in targets if target not in PACKAGES} - {room}
    return {room: arrows for room, arrows in rooms.items() if room not in PACKAGES}


def room_of(name: str, depth: int) -> str:
    """The first `depth` parts of a module's name."""
    return ".".join(name.split(".")[:depth])


def strongly_connected(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Sets of nodes that reach one another, of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1:
                circles.append(sorted(circle))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(graph) + 1000))
    for node in graph:
        if node not in index:
            visit(node)
    return circles


def print_rooms(imports: Mapping[str, set[str]], rooms: Mapping[str, set[str]], depth: int) -> None:
    """One line a room: files, lines, longest file, and the rooms that it imports."""
    source = Path(__file__).parents[1] / "src"
    members: dict[str, list[int]] = {room: [] for room in rooms}
    for name in imports:
        path = source / Path(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if room_of(name, depth) in members:
            members[room_of(name, depth)].append(len(file.read_text(encoding="utf-8").splitlines()))
    print(f"{'room':40} {'files':>5} {'lines':>6} {'longest':>7}  imports")
    for room in ordered(rooms):
        sizes = members[room]
        arrows = ", ".join(sorted(short(target) for target in rooms[room])) or "-"
        print(f"{short(room):40} {len(sizes):5} {sum(sizes):6} {max(sizes):7}  {arrows}")


def ordered(rooms: Mapping[str, set[str]]) -> list[str]:
    """Inner rooms first: each after all that it imports, where that can be had."""
    placed: list[str] = []
    waiting = sorted(rooms)
    while waiting:
        ready = [room for room in waiting if rooms[room] & set(rooms) <= set(placed)] or waiting[:1]
        placed += ready
        waiting = [room for room in waiting if room not in ready]
    return placed


def short(name: str) -> str:
    """Without the library's own name."""
    return name.removeprefix(PACKAGES[0] + ".")


if __name__ == "__main__":
    sys.exit(main())
