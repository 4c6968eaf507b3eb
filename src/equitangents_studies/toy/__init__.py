"""The study `toy`: an invariant function on the plane."""
