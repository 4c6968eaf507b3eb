"""How the members of a deep ensemble are trained: recipe, batches, plan, loop and run."""
