"""Commands whose options are data, the network that `--net` names, and what a terminal shows meanwhile."""

from __future__ import annotations

import inspect
import logging
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from equitangents import beside
from equitangents.cli.values import a_net, one_of, part, there

PLACE = "PATH|URL"  # what takes s3://bucket/name and the like, too
Setting = tuple[Any, Any, Any]  # the type of a value, what typer knows of it, and its default, ... where there is none


def option(kind: Any, text: str, default: Any = None, *names: str, **more: Any) -> Setting:
    """An option; one whose default is None may be left out, and one whose default is ... may not."""
    return kind if default is not None else kind | None, typer.Option(*names, help=text, **more), default


def argument(kind: Any, text: str, **more: Any) -> Setting:
    """As `option`, of a word without a name, which may not be left out."""
    return kind, typer.Argument(help=text, **more), ...


def pick(text: str, default: str | None, *values: str) -> Setting:
    """An option that is one of the values, which its help lists."""
    return option(str, f"{text}: {', '.join(values)}.", default, **one_of(*values))


def path(text: str, default: Any = None) -> Setting:
    """An option that is a file or folder that is there, or a URL."""
    return option(str, text, default, metavar=PLACE, callback=there)


def flag(text: str) -> Setting:
    """An option without a value, False where it is not given; it has the name of its setting and no opposite."""
    return bool, typer.Option(help=text), False


def command(*panels: tuple[str | None, dict[str, Setting]]) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """A decorator: a function of one object, whose attributes are the settings of these panels, as a command of typer.

    Its `context` is that of the command.
    """
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for panel, settings in panels:
        for name, (kind, info, default) in settings.items():
            info.rich_help_panel = panel
            if default is False:
                info.param_decls = ("--" + name.replace("_", "-"),)
            default = inspect.Parameter.empty if default is ... else default
            parameters.append(parameters[0].replace(name=name, annotation=Annotated[kind, info], default=default))

    def decorated(run: Callable[[Any], None]) -> Callable[..., None]:
        def called(context: typer.Context, **values: Any) -> None:
            run(SimpleNamespace(context=context, **values))

        called.__name__, called.__doc__ = run.__name__, run.__doc__
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorated


PRECISION = pick("By default that of the inputs, float64 for whole numbers", None, "float32", "float64")
SHARD = option(str, "Only part I of N, I from 0 to N − 1: for job arrays.", metavar="I/N", callback=part)
NETS = "mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, layers in a file.json, or package.module:object"
NET = option(str, f"{NETS}.", "mlp", **a_net())
STDS = {
    "w_std": option(float, "Standard deviation of weights of mlp and cnn.", math.sqrt(2), "--W-std"),
    "b_std": option(float, "Standard deviation of biases of mlp and cnn.", 0.1, "--b-std"),
}
SHAPE = {
    "depth": option(
        int, "Hidden layers of a network that is named; by default 2 of mlp and cnn, 8 of the others.", min=1
    ),
    **STDS,
}


def network(spec: str, depth: int | None = None, w_std: float = 1.0, b_std: float = 0.0) -> Any:
    """The network that `--net` names, which `a_net` has looked at."""
    if spec.lower().endswith(".json"):
        from equitangents.nn.specification import read_network

        return read_network(Path(spec))
    if ":" in spec:
        from equitangents.audit.adapters.choose import load_model

        return load_model(spec)
    if spec in ("mlp", "cnn"):
        return plain_network(spec, depth or 2, w_std, b_std)
    return beside.room("systems").architecture(spec, depth or 8)


def plain_network(kind: str, depth: int, w_std: float, b_std: float, width: int = 1, outputs: int = 1) -> Any:
    """`depth` hidden layers of an MLP, or of 3×3 convolutions that are then flattened; ReLU.

    At infinite width neither `width` nor `outputs` matters.
    """
    from equitangents import nn

    readout = nn.Dense(outputs, W_std=w_std)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), *(depth * [nn.Dense(width, W_std=w_std, b_std=b_std), nn.Relu()]), readout)
    convolutions = depth * [nn.Conv(width, (3, 3), W_std=w_std, b_std=b_std), nn.Relu()]
    return nn.Sequential(*convolutions, nn.Flatten(), readout)


@contextmanager
def announced(name: str) -> Iterator[None]:
    """Meanwhile print what the logger `name` says on stderr, such as how long something will take."""
    logger, echo = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    echo.setFormatter(logging.Formatter(f"{_ERASED if sys.stderr.isatty() else ''}%(message)s"))
    level = logger.level
    logger.addHandler(echo)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(echo)
        logger.setLevel(level)


_ERASED = "\r\033[K"  # the line of a stage


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done: on a terminal one line on stderr, which goes when the block ends.

    "" takes the line off before. What takes its place there, such as how far an audit is, draws over it. Elsewhere
    nothing is shown.
    """
    terminal = sys.stderr.isatty()

    def stage(doing: str) -> None:
        if terminal:
            print(f"{_ERASED}{doing} …" if doing else _ERASED, end="", file=sys.stderr, flush=True)

    try:
        yield stage
    finally:
        stage("")
