"""Ensembles behind one interface: infinitely wide networks in closed form, finite ones trained jointly."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
