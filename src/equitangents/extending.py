"""Names for packages built on this library, beyond those of its subpackages: checks, types, files, many members.

The studies are the first such package. Each name is imported when it is first used, from the module in `extending.pyi`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("equitangents", __file__)
