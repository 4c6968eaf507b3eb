"""`equitangents fit --net auto`: what of the command it takes, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli.completion import group_name, net_name
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration

if TYPE_CHECKING:
    from equitangents.fit import Step

AUTO = "auto"
REGRESSION = "regression"


def net_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.net_name`, or "auto"."""
    return value if value == AUTO else net_name(parameter, value)


def group_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.group_name`, or "auto"."""
    return value if value == AUTO else group_name(parameter, value)


def check_group(group: str | None, why: str) -> None:
    """Raise InvalidArgumentError where the group is to be chosen and another network is fitted."""
    if group == AUTO:
        raise InvalidArgumentError("group", "auto", "C4, D4, ...; 'auto' is for --net auto", why)


def other_option(context: typer.Context, names: Iterable[str]) -> str | None:
    """Why `mlp` is meant: one of these options is given, which --net auto does not take; None where none is.

    Raises InvalidArgumentError where --net auto is given as well.
    """
    given = [name for name in names if _is_given(context, name)]
    if given and _is_given(context, "net"):
        raise _unexpected(context, given[0], "none with --net auto", "leave it out, or name a network by --net")
    return f"auto takes no {_option(context, given[0])}" if given else None


def check_named(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Raise InvalidArgumentError where one of these options, of --net auto, is given and `why` not it is fitted."""
    for name in names:
        if _is_given(context, name):
            raise _unexpected(context, name, "none without --net auto", why)


def _unexpected(context: typer.Context, name: str, expected: str, remedy: str) -> InvalidArgumentError:
    return InvalidArgumentError(_option(context, name), context.params[name], expected, remedy, verb="was given as")


def _option(context: typer.Context, name: str) -> str:
    return next(p.opts[0] for p in context.command.params if p.name == name)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def obstacle(x: Any, y: Any, classifies: bool) -> str | None:
    """For what nothing can be chosen, so that `mlp` is fitted; None where it can."""
    from equitangents.fit import LEAST, MOST

    if not classifies:
        return REGRESSION
    if y.ndim > 1:
        return "auto takes no labels at positions"
    if x.ndim not in (2, 4):
        return f"auto takes no inputs with {x.ndim - 1} axes"
    return None if LEAST <= len(x) <= MOST else f"auto takes {LEAST} to {MOST:,} samples, and there are {len(x):,}"


def progress(stage: Callable[[str], None]) -> Callable[[Step], None]:
    """Draws each step as a stage."""

    def told(step: Step) -> None:
        best = "" if step.best is None else f"; best {step.best.name}, log loss {step.best.log_loss:.3f}"
        stage(f"{step.name} {step.share:.0%}; {duration(step.seconds_left)} left{best} (Ctrl-C takes the best so far)")

    return told
