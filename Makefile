PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEVELOPED := .venv/.developed
SEEDS ?= 5000
KILL_ROUNDS ?= 400
EXAMPLES ?= 500
HOURS ?= 2
ONLY ?=

# Bytecode is always cached: otherwise each worker of pytest and each server of a test compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

# One worker more than there are cores, because tests also wait; at most 4.
WORKERS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))
NEEDS_NOTHING := not docker and not kubernetes and not strace and not million and not browser
QUICK := $(NEEDS_NOTHING) and not exhaustive and (smoke or not process)
# No test of these folders is quick, so their modules are not imported.
NOT_QUICK := clients console/browser debian faults fuzz image roles schedule trainer
# `make quick` is a process of pytest for each of these parts of one or two folders, and one for all others; the longest
# ones begin first. A worker of pytest-xdist would collect the tests of all folders, and send each result to another
# process. Each further process takes a second of CPU for its imports. pytest's cache is off: each process would overwrite
# what the others have written to it.
PARTS := cli+compute api scenarios+engine console simulation+store
QUICK_PARTS := quick-others $(PARTS:%=quick-%)
folders = $(addprefix tests/,$(subst +, ,$(1)))
QUICKLY := $(BIN)/pytest -q -p no:xdist -p no:cacheprovider --hypothesis-profile=check -m "$(QUICK)" $(NOT_QUICK:%=--ignore=tests/%)
# Two processes more than workers, because some parts wait. Each prints its output in one piece when it ends.
TOGETHER = $(MAKE) --no-print-directory --jobs=$$(($(WORKERS) + 2)) --keep-going --output-sync=target

.DEFAULT_GOAL := help
.PHONY: help install develop check lint quick $(QUICK_PARTS) local engine docker-test trace-test browser-test test test-kubernetes test-clients use-on-kubernetes test-engines faults faults-night trainer demo bench dist mutants soak simulate fuzz million format clean

help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with the command .venv/bin/batchq; does nothing when nothing changed.

$(STAMP): pyproject.toml .ci/constraints.txt
	@.ci/venv $(PYTHON) kubernetes
	@touch $@

develop: $(DEVELOPED) ## Install into .venv also what the tests and the linters need; the targets below do so.

$(DEVELOPED): pyproject.toml .ci/constraints.txt
	@.ci/venv $(PYTHON) dev
	@# For all processes of tests, each of which would otherwise begin with it: the ranges of Unicode, 1.2 s, and bytecode.
	@$(BIN)/python -c 'from hypothesis.strategies import text; text().validate()'
	@$(BIN)/python -m compileall -q api batchq compute
	@touch $(STAMP) $@

check: develop ## Format, lint, types, imports and the quick tests, which start no process. Under two minutes.
	+@$(TOGETHER) lint $(QUICK_PARTS)

lint: develop
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

quick: develop
	+@$(TOGETHER) $(QUICK_PARTS)

$(PARTS:%=quick-%): quick-%: develop
	$(QUICKLY) $(call folders,$*)

quick-others: develop
	$(QUICKLY) $(addprefix --ignore=,$(call folders,$(PARTS)))

local: develop ## All tests that need neither Docker, strace nor a browser, with all examples of hypothesis; minutes.
	@# One worker more: tests of servers and on the model of Kubernetes wait most of their time.
	$(BIN)/pytest -q -n $$(($(WORKERS) + 1)) --dist worksteal -m "$(NEEDS_NOTHING)"

engine: ## Start a Docker engine if none answers, and make the test images.
	@.ci/engine

docker-test: develop engine ## The tests that need a Docker engine.
	@.ci/tools
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "docker and not clients"

trace-test: develop ## Kill a server and its commands at each of their commits, and fail their disk at each call, by strace; minutes.
	@.ci/tools
	$(BIN)/pytest -q -m "strace and not docker" -n 2 --dist worksteal

browser-test: develop ## Open the pages of the web console in Chromium; two or three minutes.
	@.ci/tools
	$(BIN)/pytest -q -m "browser and not docker" -n 2 --dist worksteal tests/console

test: develop ## Everything: format, lint, types, imports, all local tests, then a real disk, a browser and real Docker.
	@$(MAKE) --no-print-directory --jobs=2 lint local
	@$(MAKE) --no-print-directory trace-test browser-test docker-test

# Scenarios and contracts on the cluster. They need little room of the nodes, so several run at the same time.
CLUSTER_SCENARIOS ?= tests/contracts tests/scenarios
CLUSTER_WORKERS ?= 6
ON_CLUSTER = $(BIN)/pytest -q -m kubernetes -n $(CLUSTER_WORKERS) --dist worksteal $(CLUSTER_SCENARIOS); \
	first=$$?; \
	$(BIN)/pytest -q -m kubernetes -n 0 tests/kubernetes tests/compute/kubernetes/test_model.py && exit $$first

test-kubernetes: develop ## The tests that need a Kubernetes cluster: BATCHQ_TEST_KUBERNETES, or one that this brings up. Minutes.
	@if [ -n "$$BATCHQ_TEST_KUBERNETES" ]; then sh -c '$(ON_CLUSTER)'; \
	elif $(BIN)/python -m tests.kubernetes.bed available; then \
		$(BIN)/python -m tests.kubernetes.bed run sh -c '$(ON_CLUSTER)'; \
	else echo "no programs for a cluster: set BATCHQ_KUBERNETES_PROGRAMS or BATCHQ_TEST_KUBERNETES"; exit 1; fi

# The jobs of the other clients were not tried on a cluster.
ON_CLUSTER_TOO := $(addprefix tests/clients/test_,aws_cli.py boto3.py snakemake.py workflow_engines.py)

use-on-kubernetes: develop engine ## The demo, and real clients, with jobs on a cluster that this brings up. Six minutes.
	@.ci/clients
	$(BIN)/python -m tests.kubernetes.bed run \
		sh -c '$(BIN)/python -m tests.demo && $(BIN)/pytest -q -m clients $(ON_CLUSTER_TOO)'

test-clients: develop engine ## Real clients (AWS CLI, Snakemake, Airflow, ...) against a real server; minutes.
	@.ci/clients
	$(BIN)/pytest -q -m clients -n 4 --dist loadfile tests/clients tests/docs

test-engines: develop ## The demo and docker tests on other engines (Podman, newer Docker), as root; ONLY=podman-4,... Minutes each.
	$(BIN)/python -m tests.engines --only "$(ONLY)"

faults: develop engine ## Inject every fault of the catalogue and print a table of the outcomes; minutes.
	@.ci/tools
	$(BIN)/python -m tests.faults

trainer: install engine ## Make the image batchq-trainer of docs/training.md from this machine's Python.
	$(BIN)/python -m tests.trainer.image

demo: develop engine ## Serve, and run, cancel and terminate jobs through boto3; a minute.
	$(BIN)/python -m tests.demo

bench: develop engine ## Measure against the bare Docker SDK and others; ONLY=wire,stop,... of it. Half an hour.
	$(BIN)/python -m tests.bench --only "$(ONLY)"

dist: develop ## Build the wheel and the source distribution of the last commit into dist; the same bytes each time.
	@.ci/dist

faults-night: develop engine ## The server killed KILL_ROUNDS=400 times under load, on real Docker; half an hour.
	KILL_ROUNDS=$(KILL_ROUNDS) $(BIN)/pytest -q -s tests/faults/test_kill_nine.py

mutants: develop ## Change the domain and the engine in thousands of ways (mutmut) and print those that no test detects; hours.
	$(BIN)/mutmut run
	$(BIN)/mutmut results

soak: develop engine ## Mixed load for HOURS=2 on an engine that restarts; sizes each minute, and whether a job was lost.
	$(BIN)/python -m tests.soak --hours $(HOURS)

simulate: develop ## Simulate SEEDS=5000 runs with random faults; `python -m tests.simulation --seed N` prints one.
	$(BIN)/python -m tests.simulation --seeds 0:$(SEEDS)

fuzz: develop ## schemathesis generates EXAMPLES=500 requests of each operation, and invalid ones; minutes.
	$(BIN)/python -m tests.fuzz --examples $(EXAMPLES)

million: develop ## The tests that need a million finished jobs; minutes.
	$(BIN)/pytest -q -m million tests/store

format: develop ## Format the code, and apply the automatic fixes of the linter.
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove what make has made. Data of a server stays.
	rm -rf .venv build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
