"""Ensembles of PyTorch modules, and kernels of one. PyTorch itself is imported when one is used."""

import lazy_loader

from equitangents.former import former_names

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = former_names(__name__, _load)
