"""Ensembles behind one interface: infinitely wide networks in closed form, and finite ones trained together."""

import lazy_loader

from equitangents.former import former_names

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = former_names(__name__, _load)
