"""Keywords of `audit`: one record, whose fields type checkers know, too."""

from dataclasses import fields

import numpy as np
import pytest

import equitangents as et
from equitangents.audit.settings import Keywords, Settings, settings_of
from equitangents.errors import InvalidTypeError


def test_type_checkers_know_every_setting():
    assert [field.name for field in fields(Settings)] == list(Keywords.__annotations__)
    assert all(f"        {field.name}: " in et.audit.audit.__doc__ for field in fields(Settings))


def test_a_quick_audit_looks_at_what_is_asked_for():
    quick = settings_of({"effort": "quick", "layers": True, "seed": 3})
    assert (quick.off_data, quick.layers, quick.data_test) == (False, True, None)
    assert vars(quick.bootstrap) == {"confidence": 0.95, "resamples": 200, "seed": 3}


def test_misspelt_arguments_are_named():
    with pytest.raises(InvalidTypeError, match=r"audit has no argument 'tolerence'; .*did you mean 'tolerance'"):
        et.audit(lambda x: x, "C4", np.ones((2, 4, 4, 1)), tolerence=0.01)
