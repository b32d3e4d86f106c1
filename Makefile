# Everything here works on a fresh machine with Python 3.11 or newer: the first target that needs it makes .venv.
PYTHON ?= python3
BIN := .venv/bin
# What is never imported need not be compiled to bytecode: most files of the larger packages.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test lint style types pytest study study-soak study-faults study-disk fuzz audit docs dist clean

# log Z on the terminal, and a page with its pictures.
demo: .venv/demo
	$(BIN)/tempering estimate --target-error 0.02 --report demo.html

# Most of the tests' time goes into compiling: both workers share what was compiled, and the next run has it all.
CACHE := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
# So is what Python compiles, whatever the environment says: else each of some fifty processes would read all of JAX's
# sources, for two seconds and more. It stays in .venv, so that no folder of sources is written to.
CACHE += PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/bytecode
# Each core has a worker. With more threads in each, those of NumPy's wait for one another at full speed. This has to be
# known before NumPy is imported, which pytest's plugins do.
ONE_THREAD := OPENBLAS_NUM_THREADS=1

# Types are checked beside the tests: that takes one core, and the end of the tests leaves one free.
test: style
	$(MAKE) --jobs=2 types pytest

pytest: .venv/dev
	$(CACHE) $(ONE_THREAD) $(BIN)/pytest -m "not slow" -n 2

lint: style types

style: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# Half an hour: memory, files and speed of long runs.
study-soak: .venv/dev
	$(BIN)/python experiments/soak.py

# Runs that are killed again and again, and every kind of file damaged.
study-faults: .venv/dev
	$(BIN)/python experiments/killed_runs.py
	$(BIN)/python experiments/damaged_files.py

# A full disk, and a read-only directory; as root, since it mounts small file systems.
study-disk: .venv/dev
	$(BIN)/python experiments/full_disk.py

fuzz: .venv/dev
	$(BIN)/python scripts/fuzz_readers.py --write

# ADVISORIES: OSV's archive for PyPI, see the script. Works without a network.
audit: .venv/dev
	$(BIN)/python scripts/audit_dependencies.py $(ADVISORIES)

# Goes on where it was interrupted, and first says how long it will take; see experiments/study.py.
study: .venv/dev
	$(INSTALL) -e ".[plots]"
	XLA_FLAGS=--xla_backend_optimization_level=3 $(BIN)/pytest
	$(BIN)/python experiments/study.py

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel and the sdist, and the wheel tried in an environment of its own, outside the repository.
# DATA: a directory with the paper's data; without it they are downloaded.
dist: .venv/demo
	$(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) scripts/check_wheel.py dist/*.whl $(DATA)

.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(INSTALL) -e ".[plots]"
	touch $@

.venv/dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(INSTALL) -e ".[dev]"
	touch .venv/demo $@

.venv/docs: .venv/demo
	$(INSTALL) -e ".[docs]"
	touch $@

clean:
	rm -rf .venv site
