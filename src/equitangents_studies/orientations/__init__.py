"""The study `orientations`: which group element turned a template, learnt from few images."""
