"""What the studies of outputs that move share: kernels, growing training sets, training time, claims and figures."""
