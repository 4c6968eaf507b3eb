"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs.

data groups          transformations
networks             architectures, embeddings
algorithms           descent, system
their symmetries     symmetry_tests
kernels              grams
curves of any model  curves, predictions, power_laws, sample_efficiency
which architecture   comparison
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
