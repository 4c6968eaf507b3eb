"""Ensembles of PyTorch modules, and kernels of one. PyTorch itself is imported when one is used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
