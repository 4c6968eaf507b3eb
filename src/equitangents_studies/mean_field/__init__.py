"""The study `mean-field`: two-layer networks from the output scale of lazy training to that of the mean field."""
