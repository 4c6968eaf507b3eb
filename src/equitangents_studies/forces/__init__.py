"""The study `forces`: energies, forces and tensors of molecules."""
