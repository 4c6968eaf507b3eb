"""How programs are run: along fibres, in stages or over all pairs of positions; decided before anything runs."""
