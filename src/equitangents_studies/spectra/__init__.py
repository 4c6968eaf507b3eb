"""The study `spectra`: spectra of kernels by irrep, and how many samples a symmetry is worth."""
