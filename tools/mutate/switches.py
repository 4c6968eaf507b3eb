"""Switches in a source file: the environment says which drawn fault is there, and tests that reach one are noted."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tools.mutate.drawn import span
from tools.mutate.faults import Fault

CHOSEN, REACHED = "EQUITANGENTS_FAULT", "EQUITANGENTS_FAULTS_REACHED"
SWITCH = f'''
import builtins, os

_reached = set()

def _eqt_fault(number):
    file, test = os.environ.get("{REACHED}"), os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if file is not None and (number, test) not in _reached:
        _reached.add((number, test))
        with open(file, "a") as out:
            out.write(f"{{number}} {{test}}\\n")
    return os.environ.get("{CHOSEN}") == str(number)

builtins.eqt_fault = _eqt_fault
'''


def with_switches(source: str, faults: Sequence[tuple[int, Fault]]) -> tuple[str, list[int]]:
    """A file with its faults, and the numbers of those that are there; the others overlap or are not expressions."""
    spans = [(*span(source, fault.place), number, fault) for number, fault in faults if fault.place is not None]
    there: list[int] = []
    below = len(source)
    for start, stop, number, fault in sorted(spans, key=lambda found: -found[0]):
        if stop > below:
            continue
        before = source[start:stop]
        if fault.becomes == "pass":
            alone = not source[source.rfind("\n", 0, start) + 1 : start].strip()
            put = f"if not eqt_fault({number}): {before}"
        else:
            alone, put = True, f"(({fault.becomes}) if eqt_fault({number}) else ({before}))"
        changed = source[:start] + put + source[stop:]
        try:
            ast.parse(changed)
        except SyntaxError:
            continue
        if alone:
            source, below = changed, start
            there.append(number)
    return source, there
