"""How often training has stepped, as a sentence has it."""

from __future__ import annotations


def after(step: int) -> str:
    """A number of training steps.

    Example:
        >>> after(0), after(1), after(2000)
        ('at initialisation', 'after 1 step', 'after 2,000 steps')
    """
    return "at initialisation" if step == 0 else f"after {step:,} step{'' if step == 1 else 's'}"
