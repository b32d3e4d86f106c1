# Everything here works on a fresh machine with Python 3.11 or newer: the first target that needs it makes .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint study study-coverage study-soak study-faults fuzz audit docs dist clean

demo: .venv/demo
	$(BIN)/tempering estimate

# Most of the tests' time goes into compiling: both workers share what was compiled, and the next run has it all.
CACHE := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0

test: .venv/dev lint
	$(CACHE) $(BIN)/pytest -m "not slow" -n 2

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright --pythonpath $(BIN)/python

study-coverage: .venv/dev
	$(BIN)/python experiments/interval_coverage.py --jobs $$(nproc)
	$(BIN)/python benchmarks/report.py

# An hour: memory, files and speed of long runs.
study-soak: .venv/dev
	$(BIN)/python experiments/soak.py

# Runs that are killed again and again, and every kind of file damaged.
study-faults: .venv/dev
	$(BIN)/python experiments/killed_runs.py
	$(BIN)/python experiments/damaged_files.py

fuzz: .venv/dev
	$(BIN)/python scripts/fuzz_readers.py --write

# ADVISORIES: OSV's archive for PyPI, see the script. Works without a network.
audit: .venv/dev
	$(BIN)/python scripts/audit_dependencies.py $(ADVISORIES)

study: .venv/dev study-coverage
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[plots]"
	XLA_FLAGS=--xla_backend_optimization_level=3 $(BIN)/pytest
	$(BIN)/python experiments/small_rbms.py
	$(BIN)/python experiments/figure3.py
	$(BIN)/python experiments/ais_needs.py
	$(BIN)/python experiments/stuck.py
	$(BIN)/python experiments/figure4.py
	$(BIN)/python experiments/figure7.py
	$(BIN)/python experiments/prior.py
	$(BIN)/python experiments/side_by_side.py
	$(BIN)/python experiments/matched_cost.py
	$(BIN)/python experiments/exact_answers.py
	$(BIN)/python experiments/auto_readings.py
	$(BIN)/python experiments/long_ladders.py
	$(BIN)/python experiments/hard_posteriors.py
	$(BIN)/python experiments/figure2.py
	$(BIN)/python experiments/figure6.py
	$(BIN)/python experiments/tracking.py
	$(BIN)/python experiments/figure5.py
	$(BIN)/python experiments/mnist_training.py
	$(BIN)/python benchmarks/tracking.py
	$(BIN)/python benchmarks/mbar.py
	$(BIN)/python benchmarks/gibbs.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/same_bits.py
	$(BIN)/python benchmarks/report.py

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel and the sdist, and the wheel tried in an environment of its own, outside the repository.
dist: .venv/demo
	$(BIN)/pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) scripts/check_wheel.py dist/*.whl

.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/demo
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

.venv/docs: .venv/demo
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

clean:
	rm -rf .venv site
