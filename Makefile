# What CI runs is what you run. `make help` lists the targets.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FUZZ ?= 10000

.DEFAULT_GOAL := help
.PHONY: help install format lint types imports fast check test torture torture-gate torture-sandboxes torture-conversations torture-server serve console residents bench start sandboxes wasi-testsuite bare pins clean gate

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Metier needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -q -e . --group dev -c constraints.txt
	$(BIN)/python -m compileall -q src # where PYTHONDONTWRITEBYTECODE is set nothing else would
	touch $@

install: $(STAMP) ## Create the virtual environment with everything the checks need

format: install ## Format the code
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check -q --fix src tests benchmarks examples

lint: install ## Check formatting and lint rules
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples

types: install ## Check types, strictly
	$(BIN)/basedpyright

imports: install ## Check that no room imports a higher one
	$(BIN)/lint-imports

fast: install ## Run the tests that take a moment
	$(BIN)/python -m pytest -q -m "not slow"

check: lint types imports fast ## Everything to pass before a commit

test: lint imports ## Everything CI runs; types are checked beside the tests
	METIER_FUZZ_INPUTS=$(FUZZ) BIN=$(BIN) bash tests/rows

torture: torture-gate torture-sandboxes torture-conversations torture-server ## The long runs, all of them: half an hour for each half, on a machine that does nothing else

torture-gate: install ## 200,000 fuzzed inputs, 100,000 bad calls, 1,000 kills of the gate
	METIER_FUZZ_INPUTS=200000 $(BIN)/python -m pytest -q --timeout 3600 tests/fuzz
	METIER_BAD_CALLS=100000 $(BIN)/python -m pytest -q --timeout 3600 tests/test_bad_input.py
	METIER_TORTURE=1 METIER_TORTURE_RUNS=1000 $(BIN)/python -m pytest -q --timeout 3600 tests/torture/test_killed_gate.py tests/test_approval_model.py

torture-sandboxes: install ## 1,000 sandboxed runs with kills, the contract kit in full
	METIER_TORTURE=1 METIER_TORTURE_RUNS=1000 $(BIN)/python -m pytest -q --timeout 3600 tests/torture/test_thousand_runs.py tests/sandbox

torture-conversations: install ## 10,000 messages through a Bot API server, with kills and cut connections
	METIER_TORTURE=1 $(BIN)/python -m pytest -q --timeout 3600 tests/torture/test_conversations.py

torture-server: install ## 10,000 requests made up from the OpenAPI document
	METIER_TORTURE=1 $(BIN)/python -m pytest -q --timeout 3600 tests/http/test_schemathesis.py

serve: install ## Measure the server beside a bare fastmcp one, with 200 clients for a minute (see docs/benchmarks.md)
	test -x .venv-peers/bin/fastmcp || { $(PYTHON) -m venv .venv-peers && .venv-peers/bin/python -m pip install -q fastmcp; }
	$(BIN)/python benchmarks/serve.py --peers .venv-peers/bin/python

console: install ## How long each page of the console takes on a full state (see docs/benchmarks.md)
	$(BIN)/python benchmarks/console.py

gate: install ## Measure the gate and the record around a tool that does nothing (see docs/benchmarks.md)
	$(BIN)/python benchmarks/pipeline.py

bench: install ## Measure loading beside the peers that are installed (see docs/benchmarks.md)
	$(BIN)/python benchmarks/load.py

start: install ## Measure how long the command line takes to start
	$(BIN)/python benchmarks/start.py

sandboxes: install ## Measure the sandboxes beside what people would use instead (see docs/benchmarks.md)
	$(BIN)/python benchmarks/sandbox.py

residents: install ## Measure an operation of a skill that lives beside a bare round trip, and what lives cost while idle
	$(BIN)/python benchmarks/resident.py
	$(BIN)/python benchmarks/idle.py

wasi-testsuite: install ## Run a checkout of WebAssembly/wasi-testsuite through the WASM sandbox: DIR=…
	$(BIN)/python -m metier.testing.wasi_testsuite "$(DIR)"

bare: ## Try the two commands of the README in a bare Debian root
	bash tests/bare/run

pins: install ## Write the versions the checks passed with into constraints.txt
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' > constraints.txt

clean: ## Remove what was built
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .bare
