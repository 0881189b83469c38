# SPDX-License-Identifier: Apache-2.0
# Two commands do everything on a fresh machine: `make run` and `make test`. A second run takes seconds.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
QUIET := $(shell test -t 2 || echo -qq)

.DEFAULT_GOAL := help
.PHONY: run test test-agents test-frameworks check quick fuzz bench pictures htmx images setup clean help

run: images ## Set up, then send the example session through the lock
	@$(BIN)/python -m examples.run

test: images ## Set up, then run every test, with real containers; nothing is skipped
	@$(BIN)/python -m sandbox.setup.bootstrap program ps procps  # the engine's `top` calls it on this host
	@$(BIN)/python -m sandbox.setup.bootstrap program chromium chromium  # the tests of the page
	@$(BIN)/python -m sandbox.setup.bootstrap runtimes || true  # the tests that need gVisor say what is missing
	@LOCKGATE_TESTS_MUST_RUN=1 $(BIN)/python -m tests

test-agents: images ## Drive the real Claude Code, Codex and Gemini CLI offline (installs them with npm, 1.2 GB)
	@LOCKGATE_AGENT_TESTS=1 LOCKGATE_TESTS_MUST_RUN=1 $(BIN)/python -m pytest tests/agents

test-frameworks: images ## Drive the real mini-swe-agent offline (installs it into a place of its own, 500 MB)
	@$(BIN)/python -m pip install $(QUIET) --no-input --disable-pip-version-check --target $(VENV)/frameworks mini-swe-agent
	@PYTHONPATH=$(VENV)/frameworks LOCKGATE_TESTS_MUST_RUN=1 $(BIN)/python -m pytest tests/frameworks

check: setup ## Lint, types, and the tests that need no Docker
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m sandbox.policy_tools.rates
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not docker"

# Folders and files whose tests decide and compute; one that starts a process is skipped.
QUICK := tests/policy tests/corpus tests/property/test_decide.py tests/test_layers.py tests/test_names.py tests/test_docs.py tests/sandbox/text \
    $(foreach each,agents/test_agents_budgets approvals/test_grants audit/test_chain cell/test_apply_patch cell/test_masks \
    cell/test_protocol cell/test_seccomp cell/test_tools cells/test_locks cells/test_turns cells/test_watched cli/test_shell_words \
    config/test_config connect/test_connect_texts containers/test_plan gates/test_effects,tests/sandbox/$(each).py)

quick: setup ## Half a minute, while you work: lint, types, layers, and the tests that start no process
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	@$(BIN)/mypy
	@LOCKGATE_TESTS_QUICK=1 $(BIN)/python -m pytest -n 2 --dist loadscope -m "not docker" \
	    --ignore tests/policy/gate1/test_advice.py $(QUICK)  # it decides the corpus once more

fuzz: setup ## Give random inputs to all that reads what agents write, for FUZZ_SECONDS (600)
	@$(BIN)/python -m tests.fuzz

bench: images ## Measure a call against bare bash, bwrap and docker exec
	@$(BIN)/python -m sandbox.setup.bootstrap program bwrap bubblewrap
	@$(BIN)/python -m tests.bench
	@$(BIN)/python -m tests.bench.fresh
	@$(BIN)/python -m tests.bench.mcp
	@$(BIN)/python -m tests.bench.programs
	@$(BIN)/python -m tests.bench.network
	@$(BIN)/python -m tests.bench.growth
	@$(BIN)/python -m tests.bench.pages
	@$(BIN)/python -m tests.bench.http

pictures: images ## Make the pictures of the page for the documents anew
	@LOCKGATE_PICTURES=1 $(BIN)/python -m pytest tests/container/test_page.py

htmx: ## Renew the script that the page is shown with, as it comes from npm
	@npm pack --silent htmx.org@2 >/dev/null
	@tar -xzOf htmx.org-2.*.tgz package/dist/htmx.min.js > sandbox/page/static/htmx.min.js
	@rm -f htmx.org-2.*.tgz

images: setup ## Have a Docker engine and the images of cells and keepers
	@$(BIN)/python -m sandbox.setup.bootstrap images

# Compiled once, whatever PYTHONDONTWRITEBYTECODE says: else each process compiles what it imports, anew.
setup: $(STAMP) ## Have the virtual environment with everything in it, and the sources compiled
	@$(BIN)/python -m compileall -q policy sandbox

# The first python of at least 3.11 that runs; python3 may be a shim for one that does not exist.
$(STAMP): pyproject.toml
	@set -e; \
	found=; for python in "$(PYTHON)" python3 /usr/bin/python3 python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "lockgate: python 3.11 or newer is needed: run \`sudo apt-get install python3 python3-venv\`" >&2; exit 1; fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "lockgate: installing python3-venv ..." >&2; \
	        export DEBIAN_FRONTEND=noninteractive; \
	        apt-get install -qq -y --no-install-recommends python3-venv </dev/null >/dev/null 2>&1 || \
	            { apt-get update -qq </dev/null && apt-get install -qq -y --no-install-recommends python3-venv </dev/null >/dev/null; }; \
	        "$$found" -c 'import venv, ensurepip' 2>/dev/null || found=/usr/bin/python3; \
	    else \
	        echo "lockgate: python3 has no venv: run \`sudo apt-get install python3-venv\`" >&2; exit 1; \
	    fi; \
	fi; \
	echo "lockgate: making the virtual environment with $$("$$found" --version) ..." >&2; \
	"$$found" -m venv --clear $(VENV); \
	echo "lockgate: installing the dependencies ..." >&2; \
	$(BIN)/python -m pip install $(QUIET) --no-input --disable-pip-version-check --editable '.[dev]' </dev/null
	@touch $@

clean: ## Remove the environment, caches, and the images of other versions
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m sandbox.setup.bootstrap clean || true; fi
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## Show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
