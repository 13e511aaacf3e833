# Everything starts here: `make help` lists what there is. Variables are given on the command line: make reproduce SCALE=small

SCALE ?= tiny
SEEDS ?= 1
# What make reproduce runs: patterns of names in conf/experiment. At tiny some minutes' worth; ROWS='*' runs all.
ROWS ?= $(or $(ROWS_$(SCALE)),*)
ROWS_tiny := p/gpt2/* p/table3/* l/figure2/* \
	$(foreach pair,wmt14_en_de wmt14_en_fr,$(pair)/allreduce_adam $(pair)/accum_adam_aer)
BIN := .venv/bin
# The first Python on the path that is new enough; looked for only when the environment is made.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup setup-fairseq reproduce records results figure-runtime test lint lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.installed data/wordnet-3.0 ## install the locked dependencies into .venv

.venv/.installed: requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; name it: make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --requirement requirements.lock
	@touch $@

data/wordnet-3.0: | .venv/.installed
	@$(BIN)/python -m scripts.wordnet || echo "Everything but the METEOR score of translations works without it." >&2

setup-fairseq: .venv/.fairseq ## also build fairseq, for task.model=fairseq_transformer (needs a C++ compiler)

# fairseq's own requirements name versions that no longer install beside ours; the fork's code runs with ours.
.venv/.fairseq: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check \
		cython==3.3.1 setuptools==84.2.1 wheel==0.48.0 bitarray==3.12.3 scikit-learn==1.9.1
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps fairseq-fixed==0.12.3.1
	@touch $@

reproduce: setup ## run all experiments at SCALE (tiny, small) with SEEDS seeds; tables and curves in results/local
	$(BIN)/python -m scripts.reproduce scale=$(SCALE) seeds=$(SEEDS) experiments="$(ROWS)"
	$(BIN)/python -m scripts.bias
	$(BIN)/python -m scripts.figure_runtime

records: setup ## the same, and keep the records in results/records for committing
	$(BIN)/python -m scripts.reproduce scale=$(SCALE) seeds=$(SEEDS) experiments="$(ROWS)" keep=results/records

figure-runtime: setup ## draw the runtime model of [P] and how its published clusters fit it
	$(BIN)/python -m scripts.figure_runtime out=results/figures/runtime_model.png
	$(BIN)/python -m scripts.figure_scaling out=results/figures/runtime_scaling.png

results: setup ## make tables, figures and the README's results from results/records
	$(BIN)/python -m scripts.report

test: setup ## run the tests
	$(BIN)/python -m pytest

lint: setup ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: ## resolve pyproject.toml into requirements.lock (needs uv)
	uv pip compile --universal --python-version 3.11 --all-extras --no-header --no-emit-index-url pyproject.toml \
		--output-file requirements.lock

clean: ## remove the environment and all caches; runs, data and results stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
