"""Batches of molecules."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.molecules import Molecules
from molecules.example_molecules import molecules

DUMMY = Atoms("XH", [[0, 0, 0], [0, 0, 1]])


def test_ase_there_and_back():
    given = [molecule(name) for name in ("H2O", "CH3CH2OH", "CO")]
    batch = Molecules.from_ase(given)
    assert batch.sizes.tolist() == [3, 9, 2]
    assert batch.elements == (1, 6, 8)
    for before, after in zip(given, batch.to_ase(), strict=True):
        assert before.get_chemical_formula() == after.get_chemical_formula()
        np.testing.assert_array_equal(before.positions, after.positions)


def test_one_molecule_of_ase_is_a_batch_of_one():
    water = molecule("H2O")
    np.testing.assert_array_equal(Molecules.from_ase(water).positions, Molecules.from_ase([water]).positions)


@pytest.mark.parametrize(
    ("atoms", "error", "message"),
    [
        (5, InvalidTypeError, "atoms holds int; expected ASE's Atoms"),
        ([molecule("CO"), 5], InvalidTypeError, "atoms holds int"),
        ([molecule("CO"), DUMMY], InvalidArgumentError, r"atoms\[1\] holds 'a dummy atom X"),
        ([], InvalidArgumentError, "expected at least one molecule"),
        ([molecule("H2O"), bulk("Cu", cubic=True)], InvalidArgumentError, r"atoms\[1\] has pbc"),
    ],
)
def test_what_is_no_molecule_of_ase(atoms, error, message):
    with pytest.raises(error, match=message):
        Molecules.from_ase(atoms)


def test_some_of_them():
    batch = molecules(4)
    assert len(batch[1]) == 1
    assert len(batch[1:3]) == 2
    np.testing.assert_array_equal(batch[[3, 0]].positions, batch.positions[[3, 0]])


def test_nothing_can_be_changed_and_padding_is_not_read():
    numbers, positions = np.array([[8, 0]]), np.array([[[0, 0, 0], [np.nan, 0, 0.0]]])
    batch = Molecules(numbers, positions)
    numbers[0, 0] = 1
    assert batch.atomic_numbers[0, 0] == 8
    assert (batch.positions == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        batch.positions[0, 0, 0] = 1.0


@pytest.mark.parametrize(
    ("numbers", "positions", "error", "message"),
    [
        ([8, 1], np.zeros((2, 3)), ShapeError, "atomic_numbers has rank"),
        ([[8, 1]], np.zeros((1, 3, 3)), ShapeError, "positions has shape"),
        ([[8, 200]], np.zeros((1, 2, 3)), InvalidArgumentError, "holds 200"),
        ([[0, 0]], np.zeros((1, 2, 3)), InvalidArgumentError, "expected at least one atom"),
        ([[8, 1.5]], np.zeros((1, 2, 3)), InvalidArgumentError, "whole numbers"),
        ([[8, 1]], np.zeros((1, 2, 3)), InvalidArgumentError, r"positions\[0\] coincide for the atoms \(0, 1\)"),
        ([[8, 1]], np.array([[[0, 0, 0], [np.inf, 0, 0]]]), NotFiniteError, "positions"),
        ([[8, 1]], np.array([[[0, 0, 0], [np.nan, 0, 0]]]), NotFiniteError, "positions"),
        ([[8, 1]], np.array([[[0, 0, 0], [1e200, 0, 0]]]), InvalidArgumentError, "at most 1e6"),
        ([["O", "H"]], np.zeros((1, 2, 3)), InvalidTypeError, "atomic_numbers has dtype"),
        ([[8, np.inf]], np.zeros((1, 2, 3)), NotFiniteError, "atomic_numbers"),
        ([[8, 1]], np.zeros((1, 2, 3)) + 1j, InvalidTypeError, "positions has dtype"),
        ([[8, 1]], np.array([[[0, 0, 0], [1e-4, 0, 0]]]), InvalidArgumentError, "coincide"),
    ],
)
def test_bad_input(numbers, positions, error, message):
    with pytest.raises(error, match=message):
        Molecules(np.array(numbers), positions)


def test_rows_of_unequal_length():
    with pytest.raises(ShapeError, match=r"fill smaller entries \(molecules.* up with zeros"):
        Molecules([[8, 1], [1]], np.zeros((2, 2, 3)))


def test_no_molecules():
    with pytest.raises(InvalidArgumentError, match=r"chooses none of the molecules.*expected 0 to 3"):
        molecules(4)[:0]


def test_atoms_of_a_crystal_that_is_not_periodic_see_no_copies():
    crystal = bulk("Cu", cubic=True)
    crystal.pbc = False
    assert len(Molecules.from_ase([crystal])) == 1
