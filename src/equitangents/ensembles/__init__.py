"""Ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
