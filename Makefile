# Two commands: `make reproduce` and `make test`. Each sets up .venv first, once, and again when the pins change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Hundreds of processes are started: each would compile this project anew where Python may not keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help reproduce test pytest soak lint docs bench gpu-check setup clean
.DEFAULT_GOAL := help

help: ## Say what there is.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

reproduce: $(READY) ## The main job: proofs, checks, mutants, figures and claims, on the page report/index.html; ALL=1: the long figures too.
	$(BIN)/onebit report $(if $(ALL),--all)

test: $(READY) ## All checks: lint, types, import rules and every test, side by side.
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

# One process more than processors: many tests wait for processes that they have started.
pytest: $(READY)
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadgroup --durations 20

soak: $(READY) ## The long campaigns: what make test has in a short form.
	$(BIN)/python -m pytest -m soak

lint: $(READY) ## Style, types and import rules; warnings are errors.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

docs: $(READY) ## The documentation as a site, site/index.html; fails on a broken link.
	$(BIN)/mkdocs build --strict

bench: $(READY) ## Speed on this machine, beside the bytes that must move.
	$(BIN)/onebit bench reference
	$(BIN)/onebit bench kernels

# A machine with a GPU brings its own torch: where PYTHON can use it, nothing is installed.
gpu-check: ## Kernels on a CUDA device: correctness and measured speed; says so where there is none.
	@if $(PYTHON) -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then \
	    $(PYTHON) -m gpu_impl.benchmarks.gpu_check; \
	else \
	    $(MAKE) --no-print-directory $(READY) && $(BIN)/python -m gpu_impl.benchmarks.gpu_check; \
	fi

setup: $(READY) ## Only install.

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no '$(PYTHON)'; install Python 3.11 or newer, or say make PYTHON=/path/to/python3"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than Python 3.11; say make PYTHON=/path/to/a/newer/python3"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv and pip; on Debian: apt-get install python3-venv python3-pip"; exit 2; }
	@echo "setting up $(VENV) (once; needs a package index)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[all,dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # by all cores; pip would by one
	@# Where torch comes with CUDA it brings its Triton. Elsewhere this one serves, for its interpreter (Linux, x86-64).
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install --quiet \
	    'triton==3.7.1; sys_platform == "linux" and platform_machine == "x86_64"'
	@touch $(READY)

clean: ## Remove everything that make made.
	rm -rf $(VENV) report site .cache build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
