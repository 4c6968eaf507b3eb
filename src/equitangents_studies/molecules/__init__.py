"""The study `molecules`: energies of molecules from invariant kernels."""
