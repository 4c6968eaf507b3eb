"""Networks with branches, masks, graphs, attention or dropout: programs over all pairs of positions."""
