"""What a package built on this library needs beside its rooms: checks, whole files, names of types, work spread out.

The studies are the first such package. Each name is imported from where it lives when it is first used: the stub beside
this file says from where.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("equitangents", __file__)
