"""The pytest plugin: a fixture `assert_equivariant` whose errors also stand in JUnit's XML, one property a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from equitangents._aliases import AnyModel, Tree
from equitangents.keywords import named_also

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport
    from equitangents.audit.settings import AuditedAction, OutputAction

Recorder = Callable[[str, object], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The tolerance of assertions that state none."""
    parser.getgroup("equitangents").addoption(
        "--equivariance-tolerance",
        type=float,
        default=None,
        help="mean relative error that assert_equivariant accepts where a test states none (default: the floor)",
    )


@pytest.fixture
def assert_equivariant(request: pytest.FixtureRequest, record_property: Recorder) -> Callable[..., Any]:
    """`equitangents.testing.assert_equivariant`, which also records the error in the test's properties."""
    return recording(record_property, request.config.getoption("--equivariance-tolerance"))


def recording(record: Recorder, tolerance: float | None) -> Callable[..., Any]:
    """The assertion, with a tolerance where none is stated, and its error recorded."""

    @named_also(group="action")
    def asserted(
        f: AnyModel, action: AuditedAction, x: Tree, output_action: OutputAction = None, **entries: Any
    ) -> AuditReport:
        from equitangents.testing.assertion import assert_equivariant

        entries.setdefault("tolerance", tolerance)
        report = assert_equivariant(f, action, x, output_action, **entries)
        record("equivariance error", report.headline.error.estimate.mean)
        record("equivariance floor", report.headline.floor)
        return report

    return asserted
