"""The study `rotated-images`: predictions on rotated images."""
