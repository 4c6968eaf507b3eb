"""The study `continuous`: a continuous group sampled by finite ones."""
