"""The study `small-data`: kernels, a trained CNN and a random forest on few images."""
