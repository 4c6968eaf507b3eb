"""The study `symmetry-groups`: which learning algorithm is symmetric under which group."""
