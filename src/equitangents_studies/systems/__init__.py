"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
