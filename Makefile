# `make` lists what there is. Nothing but Python >= 3.11 and make is assumed.

# The folder of this file. It may hold blanks, at which make's own functions would split it.
HERE := $(shell cd "$$(dirname '$(subst ','\'',$(MAKEFILE_LIST))' | sed 's/^ //')" && pwd -P)
.DEFAULT_GOAL := help

ifneq ($(HERE),$(shell pwd -P))
# Called as `make -f` from elsewhere: do the same here.
GOALS := $(or $(MAKECMDGOALS),help)
.PHONY: $(GOALS)
$(GOALS):
	@$(MAKE) --no-print-directory -C "$(HERE)" -f Makefile $@
else

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LATEST := .venv-latest
HTML := _build/html/index.html
# Two workers suit two cores.
WORKERS ?= 2
# Set to nothing where a quick installation matters more than quick starts.
COMPILE ?= --compile-bytecode
# What `make lab` opens, below derivations/ and without its ending.
NOTEBOOK ?=
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

# The user's settings shall neither move what is installed nor change what is computed.
export PYTHONUTF8 := 1
export PYTHONNOUSERSITE := 1
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIREMENT PIP_CONSTRAINT PIP_NO_BINARY
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONWARNINGS PYTEST_ADDOPTS
unexport UV_PYTHON UV_SYSTEM_PYTHON UV_TARGET UV_PREFIX UV_CONSTRAINT UV_OVERRIDE UV_EXCLUDE_NEWER

.PHONY: help install book live serve-live pdf test test-code test-notebooks test-faults test-pythons test-tries test-pages test-live test-latest check rerun lab lock serve \
	lint benchmarks mutants clean

help:  ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

install: $(INSTALLED)  ## set up .venv from the lock (the other commands do it themselves)

$(INSTALLED): requirements.txt pyproject.toml derivations/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' requirements.txt)"
	$(UV_INSTALL) $(COMPILE) -r requirements.txt
	$(UV_INSTALL) --no-deps --no-build-isolation -e . -e derivations
	-$(if $(COMPILE),$(BIN)/python tests/house/warm.py)
	@touch $@

book: $(INSTALLED)  ## build the book and print the path to open
	$(BIN)/jupyter-book build . -W -n --keep-going --quiet
	@echo "The book is built: open $(CURDIR)/$(HTML)"

live: $(INSTALLED)  ## build the book with cells that run in the page (fetches Pyodide by npm; 20 MB)
	LIVE_CELLS=1 $(BIN)/jupyter-book build . -W -n --keep-going --quiet
	@echo "The book is built; cells run where it is served: make serve-live, http://localhost:8000"

pdf: $(INSTALLED)  ## print the whole book as one PDF, beside the pages (needs Chromium)
	$(BIN)/python book/print_book.py

test: book test-code test-notebooks test-faults  ## build the book, run all tests, the doctests, nbval and planted faults

test-code: $(INSTALLED)
	$(BIN)/python -m pytest tests qcore --doctest-modules -m "not faults and not tries and not pythons and not live" -n $(WORKERS) --dist loadgroup

test-faults: $(INSTALLED)  ## plant each fault of tests/claims/mutations: the claim that is named must fail
	$(BIN)/python -m pytest tests/claims/test_mutations.py -m faults -n $(WORKERS)

test-pythons: $(INSTALLED)  ## install the lock on the later Pythons that are found, and run a part there
	$(BIN)/python -m pytest tests/house -m pythons

test-tries: $(INSTALLED)  ## try what the chapters invite to try
	$(BIN)/python -m pytest tests/claims/test_attempts.py -m tries -n $(WORKERS)

test-notebooks: $(INSTALLED)
	$(BIN)/python -m pytest --nbval derivations -n $(WORKERS) --dist loadscope

test-pages: book  ## look closely at every page: between the widths, on paper, with axe-core in both themes
	LOOK_CLOSELY=1 REQUIRE_BROWSER=1 $(BIN)/python -m pytest tests/book

test-live: live  ## run every chapter in its page, in Chromium, with all other hosts blocked
	REQUIRE_BROWSER=1 $(BIN)/python -m pytest tests/book/test_live.py -m live

test-latest:  ## check the claims with the newest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LATEST)
	$(LATEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LATEST)/bin/uv pip install --quiet $(COMPILE) --python $(LATEST)/bin/python --upgrade -e '.[book,test]'
	$(LATEST)/bin/uv pip list --python $(LATEST)/bin/python | grep -E '^(sympy|mpmath|numpy|scipy|numba) '
	$(LATEST)/bin/python -m pytest --nbval derivations --claims-only -n $(WORKERS) --dist loadscope

check: $(INSTALLED)  ## after an edit: style, and the tests, notebooks and planted faults that it touches
	$(BIN)/python tests/house/check.py

rerun: $(INSTALLED)  ## re-execute all notebooks and rewrite them in place
	$(BIN)/python -m derivations.claims.rerun

lab: $(INSTALLED)  ## open JupyterLab on the notebooks (NOTEBOOK=deferral/esrt)
	$(BIN)/python -m derivations.claims.lab $(NOTEBOOK)

lock: $(INSTALLED)  ## renew requirements.txt from both pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
		--all-extras --upgrade --no-header --no-emit-package queues-under-control \
		--no-emit-package queues-under-control-derivations --output-file requirements.txt pyproject.toml

mutants: $(INSTALLED)  ## plant random faults and list those that nothing notices (SEED=1 COUNT=150; hours)
	$(BIN)/python -m tools.mutants --seed $(or $(SEED),1) --count $(or $(COUNT),150)

benchmarks: $(INSTALLED)  ## measure speed and accuracy against peers; renews the book's tables
	$(BIN)/python -m benchmarks

serve: book  ## serve the book at http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

serve-live: live  ## serve the book with cells that run at http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

lint: $(INSTALLED)  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(LATEST) _build .pytest_cache .ruff_cache .hypothesis .numba_cache .settings screenshots *.egg-info \
		derivations/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

endif
