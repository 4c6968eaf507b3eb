"""The study `learning-curves`: errors against training size, exponents, and what the spectrum predicts."""
