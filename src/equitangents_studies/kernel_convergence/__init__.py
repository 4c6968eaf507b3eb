"""The study `kernel-convergence`: kernels of random networks against the analytic ones."""
