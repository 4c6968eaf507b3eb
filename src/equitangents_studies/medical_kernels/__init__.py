"""The study `medical-kernels`: kernels with and without symmetry classify tissue."""
