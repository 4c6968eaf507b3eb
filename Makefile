# Every target sets up .venv by itself. PYTHON=... chooses the interpreter, JOBS=... the number of test processes,
# TIMEOUT=... the seconds after which a hanging test fails.

PYTHON ?=
JOBS ?= $(shell bash scripts/jobs.sh)
TIMEOUT ?= 600
ifeq ($(strip $(SEED)),)
override SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := $(VENV)/.installed-torch $(VENV)/.installed-onnx $(VENV)/.installed-transformers

LOWEST := build/lowest
LOWEST_PIP := $(LOWEST)/bin/python -m pip --disable-pip-version-check install --quiet
LOWEST_TESTS := $(addprefix tests/,kernels/test_traits.py kernels/test_cpu_duals.py kernels/test_cpu_engine.py ensembles/test_infinite.py \
	ensembles/test_deep_checkpoints.py cli/test_command_line.py report scale/test_gram_store.py scale/test_reading.py)

# One thread a test process: the processes already fill the cores.
XLA := --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$(XLA)"
# A test that hangs ends its process, also where it hangs in compiled code; pytest-xdist reports it and starts another.
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --timeout $(TIMEOUT) --timeout-method thread

.PHONY: help setup demo check test test-all test-docs test-lowest test-random test-machines test-frozen test-extras test-browser lint wheel format results docs \
	changelog bench clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 18

setup: $(STAMP) ## .venv with the package and its tools

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh scripts/headers.sh native/CMakeLists.txt $(wildcard native/src/*)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh $(VENV) test,lint,docs
	@touch $@

demo: $(STAMP) ## the main job on real data, with a report
	$(BIN)/python -m equitangents reproduce rotated-images --preset quick --force

# Compiling small programs takes most of the time, and without optimisation a third of it. The other targets compile as
# users do. XLA reads its flags up to the first word that begins without a dash.
test: export PYTHONDONTWRITEBYTECODE := # test processes, and those that they start, share what one of them compiled
test: XLA := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
	--xla_cpu_parallel_codegen_split_count=1 $(XLA)
test: $(STAMP) ## all tests but the slow ones, and what they cost
	$(PYTEST) -m "not slow" --memory-limit 1.5

test-all: $(STAMP) $(EXTRAS) ## all tests, with PyTorch, ONNX and transformers
	$(PYTEST)
	$(PYTEST) tests/audit_extras tests/torch_ensembles

test-docs: $(STAMP) ## every page's examples, the long ones included
	$(PYTEST) tests/docs

# Old packages beside new ones that they need warn of those, so such warnings are no errors here.
test-lowest: XLA := --xla_backend_optimization_level=0 $(XLA)
test-lowest: $(LOWEST)/.installed ## some of each kind of test with the lowest versions of pyproject.toml, by Python 3.11
	$(ONE_THREAD) $(LOWEST)/bin/python -m pytest -n $(JOBS) --timeout $(TIMEOUT) -m "not slow" -W ignore::DeprecationWarning $(LOWEST_TESTS)

test-random: $(STAMP) ## property tests on new examples; SEED=... repeats a run
	@echo "make test-random SEED=$(SEED)"
	@$(PYTEST) -m hypothesis --hypothesis-profile random --hypothesis-seed $(SEED) --timeout 1800

test-machines: $(STAMP) ## numerical tests as other machines compute them; ARGS="zen-sse2" for one of them
	$(BIN)/python scripts/machines.py $(ARGS) -- -n $(JOBS) --dist worksteal --timeout $(TIMEOUT) --timeout-method thread

test-frozen: $(STAMP) ## frozen cases computed anew; COUNT=all, ONLY=studies, SEED=...
	$(ONE_THREAD) $(BIN)/python -m tests.frozen --check $(or $(COUNT),30) --seed $(SEED) --only $(or $(ONLY),kernels ensembles audits refusals)

test-extras: $(STAMP) $(EXTRAS) ## tests of PyTorch, ONNX and transformers models
	$(PYTEST) tests/audit_extras tests/torch_ensembles

test-browser: $(STAMP) $(VENV)/.installed-browser ## the pages in a headless Chromium
	$(BIN)/python -m pytest tests/browser

lint: $(STAMP) ## ruff, mypy, and who may import whom
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache

check: $(STAMP) ## style, contracts, types and tests of the files that you changed; BASE=main for those of a branch
	@$(ONE_THREAD) bash scripts/check.sh $(BIN)

wheel: $(STAMP) ## a wheel in dist/, tried in a clean environment without a compiler
	@bash scripts/wheel.sh $(VENV)

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

results: $(STAMP) ## publish finished runs in the documentation; RUNS="FOLDER ..."
	$(BIN)/python -m tools.results $(RUNS) $(ARGS)

docs: $(STAMP) ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

changelog: $(STAMP) ## what the files of changelog.d will add to CHANGELOG.md
	$(BIN)/python -m towncrier build --draft --version next

bench: $(STAMP) $(VENV)/.installed-bench ## the benchmarks; ARGS=--full for more, ARGS=groups for one
	$(BIN)/python -m benchmarks $(ARGS)

$(VENV)/.installed-%: $(STAMP)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh $(VENV) $*
	@touch $@

# The library is that of .venv, built with the headers of the oldest jaxlib; tools of tests are of one version everywhere.
$(LOWEST)/.installed: scripts/lowest.py $(STAMP)
	python3.11 -m venv --clear $(LOWEST)
	$(BIN)/python scripts/lowest.py scale > $(LOWEST)/requirements.txt
	$(LOWEST_PIP) --requirement $(LOWEST)/requirements.txt scikit-build-core
	$(LOWEST_PIP) --constraint constraints.txt beartype hypothesis pooch psutil pytest pytest-timeout pytest-xdist
	$(LOWEST_PIP) --no-deps --no-build-isolation --config-settings wheel.cmake=false --editable .
	@touch $@

clean: ## everything that was made, except runs/
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
