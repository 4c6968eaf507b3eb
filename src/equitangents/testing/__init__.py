"""Assertions for the tests of one's own models, and a pytest plugin with the same."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
