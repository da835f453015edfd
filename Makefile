# Graphwright. `make help` lists the targets; each one makes .venv and installs what it needs first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint types layers unit examples-run bench docs golden examples zoo-counts validate-axioms rules format clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP) ## Train a recommender beside DistributedDataParallel: measure, predict, run, check (1-2 minutes)
	$(BIN)/graphwright demo

test: lint types layers unit examples-run ## Everything a change must pass: lint, types, layers, tests, examples

lint: $(STAMP) ## ruff: format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## mypy, strict on src/
	$(BIN)/mypy

layers: $(STAMP) ## import-linter: imports go downwards only
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/pytest -n $(JOBS) -m 'not slow'

test-all: $(STAMP) ## All tests, the slow ones included, with far more random calls
	$(BIN)/pytest -n $(JOBS) --hypothesis-profile=hunt --timeout=1800

examples-run: $(STAMP)
	for example in examples/*.py; do echo "== $$example"; GRAPHWRIGHT_MEASURE=0 $(BIN)/python $$example || exit 1; done

bench: $(STAMP) ## Every benchmark, quickly, with its targets checked
	for bench in benchmarks/[a-z]*.py; do echo "== $$bench"; $(BIN)/python $$bench --quick --check || exit 1; done

docs: $(STAMP) ## Check that the links between the documents lead somewhere
	$(BIN)/python docs/check_links.py

golden: $(STAMP) ## Write the golden files anew
	$(BIN)/pytest -n $(JOBS) tests/golden --regenerate

examples: $(STAMP) ## Draw example calls for `graphwright describe`, of operators that have none yet
	$(BIN)/python tests/property/make_examples.py

zoo-counts: $(STAMP) ## Count the operators of every zoo model anew (minutes)
	$(BIN)/python -c 'from graphwright.zoo.listing import write_counts; write_counts()'

validate-axioms: $(STAMP) ## Check the properties behind rewriting on all small shapes by Z3 (hours; goes on where it was)
	$(BIN)/python -m graphwright.rewrite.substitutions.validate

rules: $(STAMP) ## Generate, prove and prune the library of substitutions anew (minutes)
	$(BIN)/python -m graphwright.rewrite.substitutions.generate

format: $(STAMP) ## Let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
