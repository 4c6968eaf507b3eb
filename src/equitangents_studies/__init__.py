"""Studies: each reproduces the claims of a paper with one command and reports which of them hold.

It also holds what users can call: learning systems, baselines and data sets. This package is a user of `equitangents`:
it imports only the library's public names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
