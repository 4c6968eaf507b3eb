"""The study `segmentation`: how many annotated images a symmetry saves where outputs are masks."""
