"""The study `finite-width`: the parts of a finite ensemble's violation."""
