"""Ensembles of infinitely many, infinitely wide networks, solved in closed form."""
