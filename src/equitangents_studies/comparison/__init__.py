"""The study `comparison`: augmentation, built-in invariance, canonicalisation and averaging, side by side."""
