"""The study `moving-outputs`: masks, flows and the element that rotated a template, learnt with their symmetry."""
