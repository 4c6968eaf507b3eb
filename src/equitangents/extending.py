"""Library functions for packages built on this one: checks, atomic files, type names, parallel tasks.

The studies are the first such package. Each name is imported on first use from the module that the stub file
`extending.pyi` lists.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("equitangents", __file__)
