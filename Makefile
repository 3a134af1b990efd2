# Everything a developer needs to know: make demo, test, check, bench, site, test-kubernetes, test-browser,
# test-kernel, twin, test-containers, test-prometheus, test-wheel, test-pythons, crash, crash-sweep, chaos, image, image-test, release, lock.
# Each target installs what it needs into .venv first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TOOLS  := $(VENV)/.tools

.PHONY: setup demo test check format reference site bench test-kubernetes programs test-browser test-kernel twin test-containers test-prometheus test-wheel test-pythons crash crash-sweep chaos image image-test release lock clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/run.lock requirements/build.lock
	@$(PYTHON) tools/setup_venv.py $(VENV)
	@touch $(STAMP)

$(TOOLS): $(STAMP) requirements/dev.lock
	@$(PYTHON) tools/setup_venv.py $(VENV) dev
	@touch $(TOOLS)

demo: $(STAMP)
	@$(BIN)/kohort demo

# Three at a time, since a third of the time is spent waiting for processes, connections and real seconds.
test: $(TOOLS)
	$(BIN)/pytest -n 3 -m "not kubernetes and not kernel and not containers and not wheel and not image and not browser"

check: $(TOOLS)
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TOOLS)
	$(BIN)/ruff check --fix src tests bench tools
	$(BIN)/ruff format src tests bench tools

reference: $(TOOLS)
	PYTHONPATH=src:. $(BIN)/python -m tools.reference

$(VENV)/.docs: $(STAMP) requirements/docs.lock
	@$(PYTHON) tools/setup_venv.py $(VENV) docs
	@touch $(VENV)/.docs

site: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(TOOLS)
	$(BIN)/python -m bench

test-kubernetes: $(TOOLS)
	$(BIN)/python -m tools.build_programs
	$(BIN)/pytest -n 2 --dist loadfile -m kubernetes tests/kubernetes

programs: $(TOOLS)
	$(BIN)/python -m tools.build_programs all

$(VENV)/.browser: $(TOOLS) requirements/browser.lock
	@$(PYTHON) tools/setup_venv.py $(VENV) browser
	@touch $(VENV)/.browser

test-browser: $(VENV)/.browser
	$(BIN)/python -m tools.browser
	$(BIN)/pytest -m browser tests/dashboard

test-kernel: $(TOOLS)
	$(BIN)/pytest -m kernel tests/kernel

# kubelet and the node agent on the same pods, in user-mode-linux: half an hour. TWIN=--keep leaves kubelet's answers as they are.
twin: $(TOOLS)
	$(BIN)/python -m tools.container_packages
	$(BIN)/python -m tools.record_kubelet $(TWIN)

test-containers: $(TOOLS)
	$(BIN)/python -m tools.container_packages
	$(BIN)/pytest -m containers tests/containers

test-prometheus: $(TOOLS)
	$(BIN)/python -m tools.prometheus_package
	$(BIN)/pytest tests/rollouts/analysis_sources

test-wheel: $(TOOLS)
	$(BIN)/pytest -m wheel tests/packaging

test-pythons: $(TOOLS)
	$(BIN)/python tools/python_versions.py

crash: $(TOOLS)
	KOHORT_CRASH_ROUNDS=200 $(BIN)/pytest -m crash tests/crash

# SWEEP="--results FILE" continues an interrupted sweep; SWEEP="--only 12 roll" repeats one crash point.
crash-sweep: $(TOOLS)
	PYTHONPATH=src:. KOHORT_LOG=error $(BIN)/python -m tools.crash_sweep $(SWEEP)

# CHAOS="--seed 7 --length 250" repeats one run; CHAOS="--results FILE" continues an interrupted series.
chaos: $(TOOLS)
	PYTHONPATH=src:. KOHORT_LOG=error $(BIN)/python -m tools.chaos $(CHAOS)

# IMAGE=--base=FILE takes exactly the Debian packages of an earlier dist/base.lock; --name=IMAGE names the result;
# --model-server builds the server of the demo instead.
image: $(TOOLS)
	$(BIN)/python -m tools.image $(IMAGE)

# All files of a release into dist/release, from a clean tree whose commit has a tag such as v0.1.0.
release: $(TOOLS)
	$(BIN)/python -m tools.release $(RELEASE)

image-test: $(TOOLS)
	$(BIN)/python -m tools.container_packages
	$(BIN)/pytest -m image tests/image

# Renew requirements/*.lock after a change of pyproject.toml; LOCK=--upgrade takes the newest versions.
lock:
	@$(PYTHON) tools/lock_requirements.py $(LOCK)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
