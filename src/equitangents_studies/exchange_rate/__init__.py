"""The study `exchange-rate`: what a group is worth as it grows, and what a wrong one costs."""
