"""The table by package, and the survivors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.mutate.faults import Fault
from tools.mutate.runner import Result

_HEAD = ("package", "planted", "seen", "survived with reason", "survived", "unclear")


def table(faults: Sequence[Fault], results: Mapping[str, Result]) -> str:
    """Counts by package, then every survivor with its reason."""
    packages = sorted({fault.package for fault in faults})
    rows = [(package, *_counts([f for f in faults if f.package == package], results)) for package in packages]
    rows.append(("all", *_counts(faults, results)))
    cells = [_HEAD, *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEAD))]
    lines = ["  ".join(f"{c:<{w}}" if not i else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True)))
             for row in cells]  # fmt: skip
    planted, seen, explained = rows[-1][1:4]
    lines += [
        "",
        f"{seen} of {planted} faults are seen ({100 * seen / planted:.1f} %), {explained} survive with a reason.",
    ]
    for fault in faults:
        result = results.get(fault.name)
        if result is None or result.verdict == "seen":
            if result is not None and fault.reason is not None:
                lines.append(f"SEEN       {fault.name}; its reason no longer holds: {fault.reason}")
        elif result.verdict == "unclear":
            lines.append(f"UNCLEAR    {fault.name}: {result.by}")
        else:
            lines.append(f"{'reason' if fault.reason else 'SURVIVED':11}{fault.name}: {fault.reason or fault.find}")
    return "\n".join(lines)


def exit_code(faults: Sequence[Fault], results: Mapping[str, Result]) -> int:
    """0 where every fault is seen or has a reason, else 1."""
    fine = lambda f: (
        f.name in results
        and (results[f.name].verdict == "seen" or (results[f.name].verdict == "survived" and f.reason is not None))
    )
    return 0 if all(map(fine, faults)) else 1


def _counts(faults: Sequence[Fault], results: Mapping[str, Result]) -> tuple[int, int, int, int, int]:
    verdicts = [(results[f.name].verdict if f.name in results else "unclear", f.reason) for f in faults]
    explained = sum(v == "survived" and reason is not None for v, reason in verdicts)
    count = lambda verdict: sum(v == verdict for v, _ in verdicts)
    return len(faults), count("seen"), explained, count("survived") - explained, count("unclear")
