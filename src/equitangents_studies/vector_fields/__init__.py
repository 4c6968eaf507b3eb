"""The study `vector-fields`: how many flows a symmetry saves where outputs are fields of vectors."""
