"""The study `cross-product`: two vectors and their cross product."""
