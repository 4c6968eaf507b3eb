"""Which PyTorch modules have an initial law that rotations preserve, by sampled modules."""

import pytest
import torch

import equitangents as et
from equitangents.errors import InvalidTypeError


def convolving(window):
    def factory():
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, window, padding="same", padding_mode="circular"),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(8, 8),
        )

    return factory


def test_square_windows_are_turned_into_themselves_and_flat_ones_are_not():
    before = torch.random.get_rng_state()
    found = et.torch.Ensemble(convolving(3)).is_admissible("C4", (4, 4, 1), members=150)
    assert found.admissible
    assert "150 initial networks" in found.reason
    assert not et.torch.Ensemble(convolving((3, 1))).is_admissible("C4", (4, 4, 1), members=150)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_module_that_is_drawn_already_has_no_law():
    with pytest.raises(InvalidTypeError, match="factory is a module Sequential; expected a function"):
        et.torch.Ensemble(convolving(3)()).is_admissible("C4", (4, 4, 1))
