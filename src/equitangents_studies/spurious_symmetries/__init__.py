"""The study `spurious-symmetries`: the cost of symmetries that an algorithm has and the data lack."""
