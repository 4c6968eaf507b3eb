#!/usr/bin/env bash
# headers.sh VENV: fetch the jaxlib that pyproject.toml builds with, once, and print the folder of its headers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/$1/bin/python
wanted=$(sed -n 's/^requires = .*"\(jaxlib==[0-9.]*\)".*/\1/p' pyproject.toml)
into=$PWD/build/headers/$wanted
if [ ! -e "$into/jaxlib/include/xla/ffi/api/ffi.h" ]; then
  "$python" -m pip --disable-pip-version-check install --quiet --no-deps --target "$into" "$wanted" >&2
fi
echo "$into/jaxlib/include"
