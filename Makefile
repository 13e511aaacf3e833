# Everything starts here: `make help` lists what there is. Variables are given on the command line: make reproduce SCALE=small

SCALE ?= tiny
SEEDS ?= 1
# What make reproduce runs: tables such as p/table3, rows of them, or patterns of these names. At tiny some minutes'
# worth; ROWS='*' runs all.
ROWS ?= $(or $(ROWS_$(SCALE)),*)
ROWS_tiny := p/gpt2 p/table3 l/figure2 \
	$(foreach pair,en_de en_fr,p/table2_$(pair)/allreduce_adam p/table2_$(pair)/accum_adam_aer)
BIN := .venv/bin
# The first Python on the path that is new enough; looked for only when the environment is made.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup setup-fairseq setup-dali reproduce records plan submit study-accumulation study-decentlam \
	study-decentlam-small bench report figure-runtime test test-all lint lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.installed data/wordnet-3.0 ## install the locked dependencies into .venv

# The lock is complete, and knows better than a package's own bounds (tool.uv in pyproject.toml): pip resolves nothing.
.venv/.installed: requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; name it: make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --requirement requirements.lock
	@touch $@

data/wordnet-3.0: | .venv/.installed
	@$(BIN)/python -m scripts.prepare wordnet || echo "Everything but the METEOR score of translations works without it." >&2

setup-fairseq: .venv/.fairseq ## also build fairseq, for task.model=fairseq_transformer (needs a C++ compiler)

# fairseq's own requirements name versions that no longer install beside ours; the fork's code runs with ours.
.venv/.fairseq: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check \
		cython==3.3.1 setuptools==84.2.1 wheel==0.48.0 bitarray==3.12.3 scikit-learn==1.9.1
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps fairseq-fixed==0.12.3.1
	@touch $@

setup-dali: .venv/.dali ## also install NVIDIA DALI, for task.decoder=dali (Linux on x86-64; 470 MB)

# Not in the lock, which everyone installs. What else DALI names it does not use here, and it wants an older packaging.
# Without nvTIFF and nvJPEG2000 nvImageCodec complains on the terminal.
.venv/.dali: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps nvidia-dali-cuda120==2.4.0 \
		nvidia-nvimgcodec-cu12==0.9.0.20 nvidia-nvjpeg-cu12==12.4.0.76 nvidia-nvtiff-cu12==0.8.0.82 \
		nvidia-nvjpeg2k-cu12==0.11.0.51 \
		astunparse==1.6.3 gast==0.7.0 optree==0.20.0 six==1.17.0
	@touch $@

reproduce: setup ## run all published tables at SCALE (tiny, small) with SEEDS seeds; tables and curves in results/local
	$(BIN)/python -m scripts.reproduce scale=$(SCALE) seeds=$(SEEDS) experiments="$(ROWS)"
ifneq ($(SCALE),paper)
	$(BIN)/python -m scripts.reproduce bias
	$(BIN)/python -m scripts.runtime figures
endif

records: setup ## the same, and add the runs to those in results, for committing
	$(BIN)/python -m scripts.reproduce scale=$(SCALE) seeds=$(SEEDS) experiments="$(ROWS)" keep=results

figure-runtime: setup ## draw the runtime model of [P] and how its published clusters fit it
	$(BIN)/python -m scripts.runtime figures folder=results/measurements

# What plan and submit take: TABLE as p/gpt2 (p-table2 is all that begin with p/table2), SCALE, SEEDS, and OVERRIDES of
# every run, separated by commas.
PLANNED = $(if $(TABLE),table="$(TABLE)") scale=$(SCALE) seeds=$(SEEDS) overrides="[$(OVERRIDES)]"

plan: setup ## list the runs of TABLE at SCALE with their cost: make plan TABLE=p/gpt2 SCALE=paper SEEDS=3
	@$(BIN)/python -m scripts.tables plan $(PLANNED)

submit: setup ## submit them to a Slurm cluster: make submit TABLE=p/gpt2 SCALE=paper CLUSTER=example [DRY=1]
	@$(BIN)/python -m scripts.tables submit $(PLANNED) $(if $(CLUSTER),cluster=$(CLUSTER)) dry=$(if $(DRY),true,false)

study-accumulation: setup ## [P] at equal and tuned rates, k = 1, 2, 4, 8, over a grid (about half an hour on 2 cores)
	$(BIN)/python -m scripts.tables run table=p/accumulation

study-decentlam: setup ## [L]'s large-batch table on small images, over a grid (two to three hours on 2 cores)
	$(BIN)/python -m scripts.tables run table=l/decentlam

study-decentlam-small: setup ## the same at scale small, three seeds at one rate a method (an hour and a half on 2 cores)
	$(BIN)/python -m scripts.prepare task=imagenet scale=small
	$(BIN)/python -m scripts.tables run table=l/decentlam_small

bench: setup ## measure step times and memory beside torch DDP and decent-dp (on links: root and iproute2)
	$(BIN)/python -m scripts.bench

report: setup ## make all tables, figures, results/report.html and the README's results of the runs in results
	$(BIN)/python -m scripts.report

# Beside each other, up to eight; more would only get in each other's way.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

test: setup ## run the quick tests, of every contract (a few minutes on 2 cores)
	$(PYTEST) -m "not slow and not slurm and not network and not browser"

test-all: setup ## run all tests, as continuous integration does
	$(PYTEST)

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
