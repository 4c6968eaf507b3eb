import logging

import pytest

from equitangents.ensembles.infinite import irrep_problem
from equitangents.ensembles.infinite.irrep_problem import Forecast


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(irrep_problem.clock, "monotonic", lambda: now[0])
    return now


def test_it_says_now_and_then_how_much_is_left(clock, caplog):
    with caplog.at_level(logging.INFO, "equitangents"):
        work = Forecast("a kernel", parts=10)
        for _ in range(10):
            clock[0] += 15
            work.advance()
    assert [record.message for record in caplog.records] == [
        "a kernel: 20 %, about 2 min left",
        "a kernel: 40 %, about 2 min left",
        "a kernel: 60 %, about 60 s left",
        "a kernel: 80 %, about 30 s left",
    ]


def test_short_work_is_quiet(clock, caplog):
    with caplog.at_level(logging.INFO, "equitangents"):
        work = Forecast("a kernel", parts=2)
        clock[0] += 5
        work.advance()
        clock[0] += 1000
        work.advance()
    assert not caplog.records


def test_hours(clock, caplog):
    with caplog.at_level(logging.INFO, "equitangents"):
        work = Forecast("a kernel", parts=101)
        clock[0] += 60
        work.advance()
    assert caplog.records[0].message == "a kernel: 1 %, about 1.7 h left"
