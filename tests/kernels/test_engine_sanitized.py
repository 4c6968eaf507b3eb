"""The CPU engine under sanitizers, and where threads and memory are refused to it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "native"
COMMON = "-fno-omit-frame-pointer -g1"
SANITIZERS = {
    "memory": ("-fsanitize=address,undefined -fno-sanitize-recover=undefined", ("libasan.so", "libubsan.so")),
    "threads": ("-fsanitize=thread", ("libtsan.so",)),
}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
    "TSAN_OPTIONS": "halt_on_error=1 report_signal_unsafe=0",
}


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitized(request, tmp_path_factory):
    """(the engine built with sanitizers, the libraries to preload for it, the compiler's flags)."""
    flags, names = SANITIZERS[request.param]
    folder = tmp_path_factory.mktemp("sanitized")
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where cmake was installed with the package
    configure = ["cmake", "-S", NATIVE, "-B", folder, f"-DPython_EXECUTABLE={sys.executable}"]
    # Loops checked at -O3 take a quarter of an hour to compile, and touch the same memory.
    options = ["-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS={flags} {COMMON}", "-DEQT_OPTIMISATION=-O1"]
    for command in ([*configure, *options], ["cmake", "--build", folder]):
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PATH": own})
    return folder / "libequitangents.so", [runtime(name) for name in (*names, "libstdc++.so")], flags.split()


def runtime(name):
    """Where the compiler keeps a library of its own."""
    command = ["c++", f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The library that refuses threads and memory."""
    library = tmp_path_factory.mktemp("planted") / "planted.so"
    command = [
        "c++",
        "-std=c++17",
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        library,
        HERE / "planted_failures.cpp",
        "-ldl",
        "-pthread",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return str(library)


def output_of(script, *arguments, preloaded, threads="3"):
    """What a script prints, as whole numbers; the libraries are loaded before it."""
    done = subprocess.run(
        [sys.executable, HERE / script, *arguments],
        env=os.environ | OPTIONS | {"LD_PRELOAD": " ".join(preloaded), "OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(word) for word in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_programs_touch_no_memory_but_their_own_and_race_for_none(sanitized):
    library, runtimes, _ = sanitized
    assert output_of("sanitized_cases.py", library, preloaded=runtimes)[0] > 120


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_refused_threads_and_memory_are_met_cleanly_under_sanitizers(sanitized, planted):
    library, runtimes, _ = sanitized
    went_on, refused = output_of("planted_cases.py", library, preloaded=[planted, *runtimes])
    assert min(went_on, refused) > 100


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_products_with_windows_are_literal_sums_in_memory_of_their_own(sanitized):
    """Called as compiled, without XLA around them."""
    library, _, flags = sanitized
    cases, objects = library.parent / "window_cases", library.parent.rglob("*.o")
    command = ["c++", "-std=c++17", "-O1", *flags, *COMMON.split(), "-I", NATIVE / "src", HERE / "window_cases.cpp"]
    subprocess.run([*command, *objects, "-o", cases, "-ldl", "-pthread"], check=True, capture_output=True)
    done = subprocess.run([cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert int(done.stdout) > 100


@pytest.mark.slow
def test_a_refused_thread_changes_no_bit_and_refused_memory_is_an_error(planted):
    """Each of the threads that a call starts, alone or with all that follow, and each piece of memory it takes."""
    went_on, refused = output_of("planted_cases.py", preloaded=[planted])
    assert min(went_on, refused) > 100
