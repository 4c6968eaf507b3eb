"""Arguments of `audit` that belong together are records; their entries can also be given by themselves."""

import inspect

import numpy as np
import pytest

import equitangents as et
from equitangents.audit import Bootstrap, InputSpec, Parts, Tolerances
from equitangents.errors import InvalidArgumentError, InvalidTypeError

X = np.random.default_rng(0).normal(size=(12, 1, 4, 4))
W = np.random.default_rng(1).normal(size=(1, 4, 4))
MODEL = lambda x: (x * (1 + 0.01 * W)).sum((1, 2, 3))
READING = {"layout": "channels_first", "outputs": "values"}
PARTS = {"off_data": False, "layers": False, "data_test": None}
JUDGING = {"tolerance": 0.5, "relative_to": "norm"}
BOOTSTRAP = {"confidence": 0.9, "resamples": 50, "seed": 3}


def numbers(report):
    return {name: value for name, value in report.to_dict().items() if name != "timing"}


def test_records_and_their_entries_give_the_same_report():
    by_entries = et.audit(MODEL, "C4", X, **READING, **PARTS, **JUDGING, **BOOTSTRAP)
    records = {"input_spec": InputSpec(**READING), "parts": Parts(**PARTS), "tolerances": Tolerances(**JUDGING)}
    by_records = et.audit(MODEL, "C4", X, **records, bootstrap=Bootstrap(**BOOTSTRAP))
    assert numbers(by_records) == numbers(by_entries)
    assert by_records.verdict == "equivariant within tolerance"
    assert by_records.settings.confidence == 0.9
    assert by_records.settings.seed == 3
    mixed = et.audit(MODEL, "C4", X, **records, **BOOTSTRAP)
    assert numbers(mixed) == numbers(by_records)


def test_every_entry_of_a_record_is_an_argument_of_its_own():
    from equitangents.audit.records import _ENTRIES, Shorthands

    assert set(_ENTRIES) == set(Shorthands.__annotations__)
    assert len(inspect.signature(et.audit.audit).parameters) == 14


@pytest.mark.parametrize(
    ("record", "entry"),
    [
        ({"input_spec": InputSpec()}, {"layout": "channels_first"}),
        ({"parts": Parts()}, {"off_data": True}),
        ({"tolerances": Tolerances()}, {"tolerance": None}),
        ({"bootstrap": Bootstrap()}, {"seed": 1}),
    ],
)
def test_a_record_and_its_entry_at_once_are_refused(record, entry):
    (value,), (word,) = record.values(), entry
    expected = rf"{word} is .*; give it in {type(value).__name__}\({word}=...\)"
    with pytest.raises(InvalidArgumentError, match=expected):
        et.audit(MODEL, "C4", X, **record, **entry)


def test_misspelt_arguments_are_named():
    with pytest.raises(InvalidTypeError, match=r"audit has no argument 'tolerence'; .*did you mean 'tolerance'"):
        et.audit(MODEL, "C4", X, tolerence=0.01)
    with pytest.raises(InvalidTypeError, match=r"Parts has no argument 'of_data'; expected .*did you mean 'off_data'"):
        Parts(of_data=True)
    with pytest.raises(
        InvalidTypeError, match=r"tolerances is 0.01; expected None or equitangents.audit.Tolerances\(...\)"
    ):
        et.audit(MODEL, "C4", X, tolerances=0.01)
