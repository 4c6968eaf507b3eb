"""The study `spurious-symmetries`: what it costs when an algorithm has symmetries that the data lack."""
