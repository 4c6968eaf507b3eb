"""What an audit measures: errors on orbits, floors, layers, irreps, ensembles, remedies."""
