"""The reference engine: every program in pure JAX."""
