"""Models of all kinds as one: trees of NumPy arrays in, lists of NumPy arrays out."""

from equitangents.audit.adapters.choose import as_model
from equitangents.audit.adapters.model import Answer, LayerTrace, Model

__all__ = ["Answer", "LayerTrace", "Model", "as_model"]
