"""What continuous integration asks of an audit of a potential: limits on errors, and that nothing got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.audit.potentials.report import AtomsReport
from equitangents.audit.potentials.results import Row
from equitangents.audit.report.checks import LEVEL, Check, grown, read_report
from equitangents.audit.report.numbers import FACTOR, Estimate, interval, standing
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import unknown
from equitangents.report.numbers import format_number


def below(report: AtomsReport, limits: float | Mapping[str, float]) -> list[Check]:
    """Whether relative errors are at most the limit of all, of their quantity, or of their test.

    What cannot be decided since the floor hides it, or since nothing that was tested shows it, does not meet a limit;
    nor does a pose without a result.
    """
    if isinstance(limits, Mapping):
        known = list(dict.fromkeys(name for r in report.rows for name in (r.quantity, r.test)))
        for name in limits:
            if name not in known:
                raise unknown("fail_above", name, known)
    found = [Check(f"{p.test}: every pose has a finite result", False, p.result) for p in report.broken]
    for r in report.rows:
        limit = limits.get(r.quantity, limits.get(r.test)) if isinstance(limits, Mapping) else limits
        if limit is None:
            continue
        name = f"{r.test}, {r.quantity} ≤ {limit:g}"
        if r.outcome == "undecided" and (r.blind or not FACTOR * r.floor <= r.tolerance):
            found.append(Check(name, False, r.decide, undecided=True))
        elif r.relative is not None:
            found.append(_relative(r, r.relative, limit, name))
    return found


def _relative(r: Row, error: Estimate, limit: float, name: str) -> Check:
    """A relative error beside its floor and a limit."""
    floor = r.floor * error.mean / r.error.mean if r.error.mean else 0.0
    stands = standing(error, floor, limit)
    return Check(name, stands == "within", interval(error), undecided=stands == "open")


def no_worse(report: AtomsReport, baseline: Path) -> list[Check]:
    """Whether errors did not grow since an earlier report, one check a row, by paired one-sided t-tests.

    Pairs are structures, of fewer than five their moves. The tests hold together at 5 % (Holm). Growth below twice the
    floor or the tolerance does not count. What is one number in each report, as a drift is, must keep its outcome.
    """
    old = _rows(baseline, report.structures_digest)
    shared = [(r, old[r.test, r.quantity]) for r in report.rows if (r.test, r.quantity) in old]
    if not shared:
        raise InvalidArgumentError(f"baseline is {str(baseline)!r}, which has no test of this audit")
    values = [_p_value(now, before) for now, before in shared]
    rejected = _holm(values)
    return [
        _check(now, before, value, worse, baseline.name)
        for (now, before), value, worse in zip(shared, values, rejected, strict=True)
    ]


def _check(now: Row, before: Mapping[str, Any], value: float | None, grew: bool, name: str) -> Check:
    if value is None:
        worse = now.outcome == "fails" and before["outcome"] != "fails"
    else:
        worse = grew and now.error.mean > max(FACTOR * now.floor, now.tolerance)
    was, unit = format_number(before["error"]["mean"]), now.unit
    said = f"{was} {unit}, {before['outcome']} before; {format_number(now.error.mean)} {unit}, {now.outcome} now"
    return Check(f"{now.test}, {now.quantity}: no worse than {name}", not worse, said)


def _p_value(now: Row, before: Mapping[str, Any]) -> float | None:
    """p-value of the hypothesis that errors did not grow; None where there are no pairs."""
    one, two = (np.array(table, np.float64) for table in (now.errors, before.get("errors") or []))
    if one.shape != two.shape or one.size < 2:
        return None
    d = one - two
    pairs = d.mean(axis=1) if len(d) >= _STRUCTURES else d.ravel()
    return grown(pairs)


_STRUCTURES = 5


def _holm(values: list[float | None]) -> list[bool]:
    """Which hypotheses are rejected, all together wrong in at most 5 % of cases."""
    known = sorted((value, i) for i, value in enumerate(values) if value is not None)
    rejected = [False] * len(values)
    for rank, (value, i) in enumerate(known):
        if not value <= LEVEL / (len(known) - rank):
            break
        rejected[i] = True
    return rejected


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier report as `to_json` wrote it; InvalidArgumentError if it is not one."""
    found = read_report(path)
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("equitangents.audit.atoms/"):
        raise InvalidArgumentError(
            f"baseline is {str(path)!r}, which is not an audit of a potential; write it with --json"
        )
    return found


def _rows(path: Path, digest: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The earlier rows by test and quantity; InvalidArgumentError if they are of other structures."""
    found = read_baseline(path)
    if found.get("structures_digest") != digest:
        raise InvalidArgumentError(
            f"baseline is {str(path)!r}, an audit of other structures, with another seed or another number of moves; "
            "a paired test needs the same"
        )
    if not isinstance(found.get("rows"), list) or not all(map(_is_row, found["rows"])):
        raise InvalidArgumentError(f"baseline is {str(path)!r}, whose rows are not those of an audit; write it anew")
    for row in found["rows"]:
        row["errors"] = [[math.nan if e is None else e for e in errors] for errors in row.get("errors", [])]
    return {(row["test"], row["quantity"]): row for row in found["rows"]}


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("test", "quantity", "outcome")):
        return False
    error, errors = row.get("error"), row.get("errors", [])
    if not isinstance(error, dict) or type(error.get("mean")) not in (int, float, type(None)):
        return False
    return isinstance(errors, list) and all(
        isinstance(each, list)
        and len(each) == len(errors[0])
        and all(e is None or type(e) in (int, float) for e in each)
        for each in errors
    )
