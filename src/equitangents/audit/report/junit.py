"""A report as JUnit's XML: one test case an output, and one a demand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from equitangents.audit.report.checks import Check
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.judged import output_error, unit_of_output
from equitangents.audit.report.words import listed, number

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML, even escaped


def junit(report: Findings, checks: Sequence[Check] = ()) -> str:
    """The XML of one suite; an output fails if it fails under some element."""
    cases = [_output(report, o) for o in range(len(report.contract.outputs))] + list(checks)
    title = f"{report.model.name} under {report.contract.group}"
    return suite(title, report.model.name, cases, report.timing.total_seconds, report.sentence)


def suite(title: str, model: str, cases: Sequence[Check], seconds: float, finding: str) -> str:
    """The XML of one suite of cases; those that fail quote the finding."""
    root = Element(
        "testsuite",
        name=f"equitangents audit of {title}",
        tests=str(len(cases)),
        failures=str(sum(not case.passed for case in cases)),
        errors="0",
        skipped="0",
        time=f"{seconds:.3f}",
    )
    for case in cases:
        node = SubElement(root, "testcase", classname=f"equitangents.audit.{model}", name=case.name)
        if not case.passed:
            SubElement(node, "failure", message=case.said).text = finding
    text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _output(report: Findings, o: int) -> Check:
    output = report.contract.outputs[o]
    said = f"mean error {number(output_error(output).mean)} {unit_of_output(output, report)}"
    if output.fails_under:
        said += f", fails under {listed(output.fails_under)}"
    return Check(f"{output.name} ({output.action})", not output.fails_under, said)
