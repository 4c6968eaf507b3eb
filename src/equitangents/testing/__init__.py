"""Assertions for tests of users' models, and a pytest plugin."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
