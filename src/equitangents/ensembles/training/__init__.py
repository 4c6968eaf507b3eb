"""Training of a deep ensemble's members: recipe, batches, plan, loop and run."""
