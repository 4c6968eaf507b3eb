"""Cells of tables: none is run by a spreadsheet, and each is read back as it was."""

import csv
import types

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from equitangents.ensembles.streaming import write_table
from equitangents.formatting import quoted, unquoted
from equitangents_studies.data import labelled_images
from equitangents_studies.framework.folder import RunFolder

RUN = "=+-@\t\r\n"


@given(st.text(alphabet="'=+-@\t\r\n1a.", max_size=6))
@example("=1+1")
@example("'=1+1")
@example("-3")
@example("-a")
def test_a_cell_is_never_run_and_reads_back_as_it_was(text):
    cell = quoted(text)
    assert unquoted(cell) == text
    if cell and cell[0] in RUN:
        assert isinstance(float(cell), float)
        assert cell == text


@pytest.mark.parametrize("value", [-1, -0.5, None, True, float("-inf")])
def test_numbers_stay(value):
    assert quoted(value) is value


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_tables_of_predictions_quote_names_and_labels(tmp_path):
    names, labels = ("=cmd.png", "a.png"), np.array(["@x", "-3"])
    write_table(tmp_path / "p.csv", names, {"label": labels, "probability": np.array([[0.9], [0.8]])}, None)
    assert rows(tmp_path / "p.csv")[1:] == [["'=cmd.png", "'@x", "0.9"], ["a.png", "-3", "0.8"]]


def test_tables_of_studies_quote_theirs(tmp_path):
    (tmp_path / "results").mkdir()
    folder = types.SimpleNamespace(path=tmp_path)
    RunFolder.write_table(folder, "t", {"=head": ["@x", "b"], "number": [-1.5, -2.0]})
    assert rows(tmp_path / "results" / "t.csv") == [["'=head", "number"], ["'@x", "-1.5"], ["b", "-2.0"]]


def test_a_table_of_labels_is_read_back_as_it_was(tmp_path):
    names, labels = ("=1.png", "'-a.png", "b.png"), ("@cat", "'dog", "-3")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    path = tmp_path / "labels.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *zip(map(quoted, names), map(quoted, labels), strict=True)])
    found = labelled_images._table(path, tmp_path, None)
    assert (tuple(found[0]), tuple(found[1])) == (names, labels)
