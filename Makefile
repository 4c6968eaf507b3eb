# Every target sets up .venv by itself. PYTHON=... chooses the interpreter, JOBS=... the number of test processes.

PYTHON ?=
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 8 ? n : 8)))

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# One thread a test process: the processes already fill the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: help setup demo test test-all test-extras test-browser lint wheel rooms format docs bench clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 18

setup: $(STAMP) ## .venv with the package and its tools

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh native/CMakeLists.txt $(wildcard native/src/* native/src/gpu/*)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh $(VENV) test,lint,docs
	@touch $@

demo: $(STAMP) ## the main job on real data, with a report
	$(BIN)/python -m equitangents reproduce rotated-images --preset quick

test: $(STAMP) ## all tests but the slow ones
	$(PYTEST) -m "not slow"

test-all: $(STAMP) $(VENV)/.installed-torch $(VENV)/.installed-onnx ## all tests, with PyTorch and ONNX
	$(PYTEST)
	$(PYTEST) tests/audit_extras

test-extras: $(STAMP) $(VENV)/.installed-torch $(VENV)/.installed-onnx ## tests of PyTorch and ONNX models
	$(PYTEST) tests/audit_extras

test-browser: $(STAMP) $(VENV)/.installed-browser ## the pages in a headless Chromium
	$(BIN)/python -m pytest tests/browser

lint: $(STAMP) ## ruff, mypy, and who may import whom
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/rooms.py --check

wheel: $(STAMP) ## a wheel in dist/, tried in a clean environment without a compiler
	@bash scripts/wheel.sh $(VENV)

rooms: $(STAMP) ## packages, their sizes, what they import, and circles
	$(BIN)/python scripts/rooms.py

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: $(STAMP) ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(STAMP) $(VENV)/.installed-bench ## the benchmarks; ARGS=--full for more, ARGS=groups for one
	$(BIN)/python -m benchmarks $(ARGS)

$(VENV)/.installed-%: $(STAMP)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh $(VENV) $*
	@touch $@

clean: ## everything that was made, except runs/
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
