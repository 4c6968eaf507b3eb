"""The study `other-ensembles`: ensembles beyond plain averaging."""
