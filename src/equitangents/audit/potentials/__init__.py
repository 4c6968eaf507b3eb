"""Audits of interatomic potentials: ASE calculators on lists of molecules and crystals."""
