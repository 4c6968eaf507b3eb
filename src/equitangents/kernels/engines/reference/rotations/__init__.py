"""Programs on rotations in JAX: the recursion at every relative rotation, in tiles of pairs."""
