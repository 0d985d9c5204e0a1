# `make` lists what there is. Nothing but Python >= 3.11 and make is assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LATEST := .venv-latest
HTML := _build/html/index.html
# Kernels are one per notebook; two workers suit two cores.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install book test test-book test-code test-notebooks test-latest rerun lock serve \
	lint benchmarks clean

help:  ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

install: $(INSTALLED)  ## set up .venv from the lock (the other commands do it themselves)

$(INSTALLED): requirements.txt pyproject.toml derivations/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' requirements.txt)"
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . -e derivations
	@touch $@

book: $(INSTALLED)  ## build the book and print the path to open
	$(BIN)/jupyter-book build . -W -n --keep-going --quiet
	@echo "The book is built: open $(CURDIR)/$(HTML)"

test: book test-code test-notebooks  ## build the book, run all tests, the doctests and nbval

test-code: $(INSTALLED)
	$(BIN)/pytest tests qcore --doctest-modules -n $(WORKERS) --dist loadgroup

test-notebooks: $(INSTALLED)
	$(BIN)/pytest --nbval derivations -n $(WORKERS) --dist loadscope

test-latest:  ## check the claims with the newest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LATEST)
	$(LATEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LATEST)/bin/uv pip install --quiet --compile-bytecode --python $(LATEST)/bin/python --upgrade -e '.[book,test]'
	$(LATEST)/bin/uv pip list --python $(LATEST)/bin/python | grep -E '^(sympy|mpmath|numpy|scipy|numba) '
	$(LATEST)/bin/pytest --nbval derivations --claims-only -n $(WORKERS) --dist loadscope

rerun: $(INSTALLED)  ## re-execute all notebooks and rewrite them in place
	$(BIN)/python -m derivations.claims.rerun

lock: $(INSTALLED)  ## renew requirements.txt from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
		--all-extras --upgrade --no-header --no-emit-package queues-under-control \
		--no-emit-package queues-under-control-derivations --output-file requirements.txt pyproject.toml

benchmarks: $(INSTALLED)  ## measure speed and accuracy against peers; renews the book's tables
	$(BIN)/python -m benchmarks

serve: book  ## serve the book at http://localhost:8000
	$(BIN)/python -m http.server --directory _build/html 8000

lint: $(INSTALLED)  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(LATEST) _build .pytest_cache .ruff_cache .hypothesis .numba_cache screenshots *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
