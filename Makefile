# Everything runs in .venv, which is made and kept up to date by itself.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow lint format golden docs wheel lowest clean

help:  ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## Set up the virtual environment in .venv

# pip learned dependency groups in 25.1; the pip of a fresh environment may be older.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[datasets]" --group dev --group docs
	@touch $@

# Each demo is a new run, named by energyscope with the time; offline, to show that nothing is fetched.
demo: $(READY)  ## Show an answer of a GPU, then measure a bundled model here, offline, in about a minute
	HF_HUB_OFFLINE=1 $(BIN)/energyscope demo

# A process a core: torch's threads would only be in each other's way. Each takes a file at a time, in the order of
# tests/conftest.py. What compares paces runs by itself. A process that crashes ends all: with `loadfile`, xdist 3.8
# waits for ever after it has begun another one.
PARALLEL := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder \
	--max-worker-restart 0

test: $(READY)  ## Run the test suite
	$(PARALLEL) -m "not gpu and not bench and not slurm and not alone and not ci"
	$(BIN)/python -m pytest -m alone

test-slow: $(READY)  ## Run what .ci/run adds: slow statistics, documents, torchrun
	$(PARALLEL) -m "ci and not gpu and not bench and not slurm"

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(READY)  ## Renew the golden texts of pages and terminal; read the difference before committing
	ENERGYSCOPE_RENEW=1 $(BIN)/python -m pytest -q tests/reporting/test_golden.py

docs: $(READY)  ## Build the site of the documentation into build/docs
	$(BIN)/python docs/build.py build/docs

wheel: $(READY)  ## Build the wheel and test it in a clean environment elsewhere
	.ci/wheel

lowest: $(READY)  ## Try the lowest versions that pyproject.toml allows in an environment elsewhere (about 5 minutes)
	$(BIN)/python tools/lowest.py

clean:  ## Remove the environment and what was built
	rm -rf $(VENV) dist build
