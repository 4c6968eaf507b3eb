#!/usr/bin/env bash
# setup.sh VENV EXTRAS: the package, editable, with the named extras at the versions of constraints.txt.
# PYTHON in the environment chooses the interpreter; otherwise Python 3.13, else another of 3.11 to 3.14 that runs.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
extras=$2

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

suitable() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in python3.13 python3.14 python3.12 python3.11 python3 python; do
    if suitable "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}

if [ -n "${PYTHON:-}" ]; then
  suitable "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python 3.11 to 3.14."
  python=$PYTHON
else
  python=$(find_python)
  [ -n "$python" ] || fail "no Python 3.11 to 3.14 found." \
    "Install one, or name it: make PYTHON=/path/to/python3.12"
fi

compilers=(${CXX:+"$CXX"} c++ g++ clang++)
command -v "${compilers[@]}" >/dev/null || fail "no C++ compiler found (looked for: ${compilers[*]})." \
  "Install one (Debian: g++, Fedora: gcc-c++, macOS: xcode-select --install), or name it with CXX=..."

if ! suitable "$venv/bin/python"; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null \
    || fail "$python cannot make virtual environments; install its venv package (Debian: python3-venv)."
  rm -rf "$venv"
  echo "setup: making $venv with $("$python" --version)"
  "$python" -m venv "$venv"
fi

pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet --constraint constraints.txt)
echo "setup: installing equitangents[$extras]; the first time takes some minutes"
"${pip[@]}" scikit-build-core cmake ninja jaxlib
# the engine is built with the headers of the oldest jaxlib, which stand apart from the one that runs
EQUITANGENTS_HEADERS=$(bash scripts/headers.sh "$venv")
export EQUITANGENTS_HEADERS
"${pip[@]}" --no-build-isolation --editable ".[$extras]"
