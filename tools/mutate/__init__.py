"""Mutation testing: plants one fault after another into a copy of the sources, and asks whether any test sees it."""
