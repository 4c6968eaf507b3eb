"""What ensembles do along the orbits of a group: laws, draws, measures and statistics."""
