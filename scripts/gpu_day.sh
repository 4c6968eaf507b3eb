#!/usr/bin/env bash
# gpu_day.sh FOLDER: everything that is to be known of the `gpu` engine on a machine with an NVIDIA GPU and Python.
#
# Installs, runs the self-test and the GPU tests against the CPU engine, measures the table of docs/guide/gpu.md and other
# layouts of a block, and leaves a log of each step and summary.txt in FOLDER. A step takes 8 minutes at most, all of them
# 25; a step that has ended is not run again, so that the same command goes on after an interruption. Exit status 1 where
# a step failed, 3 where time was up before the last one.
#
# Packages are those of the Python that PYTHON names (default python3), which should have JAX for CUDA; what it lacks is
# installed from the package index, or where there is no network from wheels in the folder that WHEELS names.
# INSTALLED=PYTHON names a Python that has the package, in which nothing is installed.
# EQUITANGENTS_GPU_EMULATE=1 tries all of it where there is no GPU: the same kernels by a C++ compiler, fewer tests.
set -uo pipefail
folder=${1:?"usage: gpu_day.sh FOLDER"}
cd "$(dirname "$0")/.."
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
STEP_SECONDS=${STEP_SECONDS:-480}
ALL_SECONDS=${ALL_SECONDS:-1500}
began=$SECONDS
python=${INSTALLED:-$folder/venv/bin/python}
emulated=${EQUITANGENTS_GPU_EMULATE:-}
failed=0
[ -n "$emulated" ] && [ "$emulated" != 0 ] && export JAX_PLATFORMS=cpu
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false

machine() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv || [ -n "$emulated" ] || return 1
  "${PYTHON:-python3}" --version && nproc && { c++ --version || g++ --version || clang++ --version; } | head -n 1
}

install() {
  [ -n "$INSTALLED" ] && { "$python" -c 'import equitangents; print(equitangents.__file__)'; return; }
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv --system-site-packages "$folder/venv" || return 1
  local pip=("$python" -m pip --disable-pip-version-check install --quiet) there=()
  [ -n "${WHEELS:-}" ] && there=(--no-index --find-links "$WHEELS")
  "$python" -c 'import scikit_build_core, jaxlib' 2>/dev/null || "${pip[@]}" "${there[@]}" scikit-build-core cmake ninja jaxlib || return 1
  "${pip[@]}" "${there[@]}" --no-build-isolation ".[test]" \
    || { echo "without what is missing:"; "${pip[@]}" --no-build-isolation --no-deps . || return 1; }
  # No checkout beside it: `equitangents` is the package that was just built.
  (cd "$folder" && "$python" -c 'import jax, equitangents; print(equitangents.__file__); print(jax.__version__, jax.devices())')
}

selftest() {
  (cd "$folder" && "$python" -m equitangents doctor --json) | tee "$folder/doctor.json" \
    && "$python" - "$folder/doctor.json" <<'PY'
import sys

from equitangents.kernels.engines import gpu

why = gpu.why_unavailable()
print("gpu engine:", why or gpu.description())
sys.exit(why is not None)
PY
}

against_cpu() { # the tests of `make test`; on a GPU the slow ones, too, with kernels of real size
  local pytest=("$python" -m pytest tests/kernels/test_gpu_engine.py -q -p no:cacheprovider --timeout 400)
  if [ -n "$emulated" ]; then # few: a C++ compiler takes seconds for each network
    "${pytest[@]}" -m "not slow" -k "nonlinearity or locally"
    return
  fi
  export EQUITANGENTS_TEST_GPU=1 # all but those that stand in for a GPU, or are about there being none
  "${pytest[@]}" -m "not slow" -k "not without and not is_the_default" \
    && "${pytest[@]}" -m slow -k "many_random or groups or branches or jax_programs or derivatives"
}

speed() { "$python" -m benchmarks gpu_engine; }

layouts() { "$python" -m benchmarks gpu_tuning; }

step() {
  local name=$1 log left
  log=$folder/$name.log
  [ -e "$folder/$name.done" ] && return
  left=$((ALL_SECONDS - SECONDS + began))
  if [ "$left" -lt 30 ]; then
    echo "$name: not begun, $ALL_SECONDS seconds are over; the same command goes on" | tee -a "$folder/summary.txt"
    exit 3
  fi
  local limit=$((left < STEP_SECONDS ? left : STEP_SECONDS)) from=$SECONDS status=0
  timeout --kill-after 10 "$limit" bash -c "set -o pipefail; $(declare -f "$name"); $name" >"$log" 2>&1 || status=$?
  case $status in
    0) touch "$folder/$name.done" && echo "$name: done in $((SECONDS - from)) s" ;;
    124 | 137) echo "$name: stopped after $limit s, see $log" ;;
    *) echo "$name: failed with status $status after $((SECONDS - from)) s, see $log" ;;
  esac | tee -a "$folder/summary.txt"
  [ "$status" = 0 ] || failed=1
  tail -n 40 "$log"
}

export folder python emulated INSTALLED="${INSTALLED:-}" WHEELS="${WHEELS:-}" PYTHON="${PYTHON:-}"
[ -z "$PYTHON" ] && unset PYTHON
for name in machine install selftest against_cpu speed layouts; do
  step "$name"
  case $name in install) [ -e "$folder/install.done" ] || exit 1 ;; esac
done
exit "$failed"
