"""`equitangents fit --net auto`: what of the command it takes, how far it is, and what it says in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli.completion import net_name
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration

if TYPE_CHECKING:
    from equitangents.fit import Choice, Step

AUTO = "auto"
_OTHERS = (
    "depth", "w_std", "b_std", "time", "learning_rate", "ridge", "kernel", "dynamics", "store", "solver",
    "memory_limit", "input_shape",
)  # fmt: skip


def net_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.net_name`, or "auto"."""
    return value if value == AUTO else net_name(parameter, value)


def check_options(context: typer.Context) -> None:
    """Raise InvalidArgumentError where an option is given that --net auto does not take."""
    options = {str(p.name): p.opts[0] for p in context.command.params}
    for name in _OTHERS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidArgumentError(
                f"{options[name]} is given, which --net auto does not take; leave it out, or name a network by --net"
            )


def obstacle(x: Any, y: Any, classifies: bool) -> str | None:
    """Why nothing can be chosen for these arrays, and the network that is named is taken; None where it can."""
    from equitangents.fit import MOST

    if not classifies:
        return "regression"
    if y.ndim > 1:
        return "labels at positions"
    if x.ndim not in (2, 4):
        return f"inputs with {x.ndim - 1} axes"
    return f"more than {MOST:,} samples" if len(x) > MOST else None


def progress(stage: Callable[[str], None]) -> Callable[[Step], None]:
    """Draws each step as a stage."""

    def told(step: Step) -> None:
        best = "" if step.best is None else f"; best {step.best.name}, log loss {step.best.log_loss:.3f}"
        stage(f"{step.name} {step.share:.0%}; {duration(step.seconds_left)} left{best} (Ctrl-C takes the best so far)")

    return told


def said(choice: Choice) -> list[str]:
    """Lines about a choice: what is more accurate, both tables, whether it was interrupted."""
    ahead = ", ".join(each.name for each in choice.others if each.is_ahead) or "none"
    lines = [f"more accurate on the same folds: {ahead}"] if choice.others else []
    lines += [choice.scores().rstrip(), choice.candidates().rstrip()]
    lines += [f"refused: {name}: {why}" for name, why in choice.refused]
    return [*lines, *(["interrupted: the best so far is taken"] if choice.interrupted else [])]
