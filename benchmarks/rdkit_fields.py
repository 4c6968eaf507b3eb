"""RDKit's force fields as ASE calculators: the bonds are those of the molecule that was asked first for each size."""

from __future__ import annotations

from typing import Any

from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.units import kcal, mol

_SMILES = {"alanine": "C[C@H](N)C(=O)O", "aspirin": "CC(=O)Oc1ccccc1C(=O)O", "limonene": "CC1=CC[C@H](CC1)C(=C)C"}


def _molecule(smiles: str) -> Any:
    from rdkit import Chem
    from rdkit.Chem import AllChem

    found = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMolecule(found, randomSeed=0)
    return found


def organic() -> list[Atoms]:
    """Three molecules, two of them chiral, rattled."""
    found = []
    for seed, (name, smiles) in enumerate(_SMILES.items()):
        of = _molecule(smiles)
        atoms = Atoms([a.GetSymbol() for a in of.GetAtoms()], positions=of.GetConformer().GetPositions())
        atoms.info["smiles"] = name
        atoms.rattle(0.05, seed=seed)
        found.append(atoms)
    return found


class Field(Calculator):
    """ "MMFF" or "UFF": energy in eV and its gradient, by RDKit."""

    implemented_properties = ["energy", "forces"]  # noqa: RUF012 (as ASE has it)

    def __init__(self, field: str):
        super().__init__()
        self.field = field
        self.known: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.field

    def calculate(self, atoms: Any = None, properties: Any = ("energy",), system_changes: Any = all_changes) -> None:
        """ASE's: the results of one structure."""
        from rdkit.Chem import AllChem

        super().calculate(atoms, properties, system_changes)
        found: Any = self.atoms
        name = found.info["smiles"]
        if name not in self.known:
            self.known[name] = _molecule(_SMILES[name])
        of = self.known[name]
        positions = found.positions.tolist()
        if self.field == "MMFF":
            force_field = AllChem.MMFFGetMoleculeForceField(of, AllChem.MMFFGetMoleculeProperties(of))
        else:
            force_field = AllChem.UFFGetMoleculeForceField(of)
        flat = [c for p in positions for c in p]
        self.results = {
            "energy": force_field.CalcEnergy(flat) * kcal / mol,
            "forces": -_rows(force_field.CalcGrad(flat)) * kcal / mol,
        }


def _rows(flat: Any) -> Any:
    import numpy as np

    return np.array(flat).reshape(-1, 3)
