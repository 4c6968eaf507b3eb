"""Settings shared by all tests: examples that Hypothesis draws, compiled programs, memory."""

import gc
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

import costs

gc.disable()  # until all tests are collected: every pass over what is being imported also has XLA look through its own

costs.share_compiled_programs()

from jaxtyping import install_import_hook  # noqa: E402

import array_types  # noqa: E402

array_types.spare_others()
install_import_hook(array_types.annotated_modules(), "array_types.check_arrays")

import matplotlib  # noqa: E402
import numpy as np  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

matplotlib.use("Agg")

# `make test` draws the same examples each time. What fails is not made smaller, which takes minutes where each try
# compiles; `make test-random` does that, and draws others.
COMMON = {
    "deadline": None,
    "print_blob": True,
    "max_examples": 15,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("default", derandomize=True, phases=[Phase.explicit, Phase.generate], **COMMON)
settings.register_profile("random", derandomize=False, database=None, phases=list(Phase), **COMMON)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--memory-limit",
        type=float,
        metavar="GB",
        help="print what the tests cost, and fail if a test process takes more memory than this",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(costs.Costs(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `quick(n)` the cases beyond the first n are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("quick")
        if marker is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] >= marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end: no need to look through them again and again
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:  # also in the process of xdist that collects nothing
    gc.enable()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also in jobs that a shell started in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same at every run."""
    return np.random.default_rng(0)


@pytest.fixture
def command(capsys):
    """Status, standard output and standard error of the command line on some arguments."""

    def called(*arguments):
        from equitangents.cli.main import main

        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    return called
