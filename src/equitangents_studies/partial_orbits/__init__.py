"""The study `partial-orbits`: what is learnt of a symmetry that only some classes show."""
