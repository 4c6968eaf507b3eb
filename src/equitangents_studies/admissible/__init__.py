"""The study `admissible`: augmented ensembles of CNNs whose windows a group does, or does not, carry to one another."""
