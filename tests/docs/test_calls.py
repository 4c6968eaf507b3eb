"""The lists of docs/guide/follow-a-call.md hold the files that its five calls run."""

from __future__ import annotations

import re

import pytest

from tools import calls


@pytest.mark.parametrize("name", list(calls.calls()))
def test_the_page_lists_the_files_that_a_call_runs(name):
    rows = re.search(calls.MARKED.format(re.escape(name)), calls.PAGE.read_text(), re.DOTALL)
    assert rows is not None
    assert sorted(re.findall(r"\[`(\S+)`\]", rows[0])) == sorted(calls.listed(name))
