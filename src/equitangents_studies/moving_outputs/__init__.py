"""The study `moving-outputs`: masks, flows and the element that turned a template, learnt with their symmetry."""
