#!/usr/bin/env bash
# wheel.sh VENV: a wheel in dist/, and its trial in an environment of its own without a compiler: `equitangents doctor`.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
clean=build/wheel-trial
rm -rf dist/*.whl "$clean"
EQUITANGENTS_HEADERS=$(bash scripts/headers.sh "$venv")
export EQUITANGENTS_HEADERS
"$venv/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
wheel=$(ls dist/equitangents-*.whl)
echo "wheel: $wheel, $(du -h "$wheel" | cut -f1)"
"$venv/bin/python" -m venv "$clean"
"$clean/bin/python" -m pip --disable-pip-version-check install --quiet --constraint constraints.txt "$wheel"
# nothing but the environment and the shell's own tools is on the path, so that a missing library cannot be built
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
cd "$tools"
env -i HOME="$tools" PATH="$OLDPWD/$clean/bin" TERM=dumb "$OLDPWD/$clean/bin/equitangents" doctor
rm -rf "${OLDPWD:?}/$clean"
echo "wheel: doctor passed in a clean environment without a compiler"
