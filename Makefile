# Everything a developer needs to know: make demo, test, check, bench, site, test-kubernetes, test-kernel, crash.
# Each target installs what it needs into .venv first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test check format reference site bench test-kubernetes programs test-kernel crash clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) tools/setup_venv.py $(VENV)
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/kohort demo

test: $(STAMP)
	$(BIN)/pytest -n 2 -m "not kubernetes and not kernel"

check: $(STAMP)
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix src tests bench tools
	$(BIN)/ruff format src tests bench tools

reference: $(STAMP)
	PYTHONPATH=src:. $(BIN)/python -m tools.reference

$(VENV)/.docs: $(STAMP)
	@$(PYTHON) tools/setup_venv.py $(VENV) docs
	@touch $(VENV)/.docs

site: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(STAMP)
	$(BIN)/python -m bench

test-kubernetes: $(STAMP)
	$(BIN)/python -m tools.programs
	$(BIN)/pytest -m kubernetes tests/kubernetes

programs: $(STAMP)
	$(BIN)/python -m tools.programs all

test-kernel: $(STAMP)
	$(BIN)/pytest -m kernel tests/kernel

crash: $(STAMP)
	KOHORT_CRASH_ROUNDS=200 $(BIN)/pytest -m crash tests/crash

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
