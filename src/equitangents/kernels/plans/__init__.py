"""Plans of programs: along fibres, in stages or over all pairs of positions."""
