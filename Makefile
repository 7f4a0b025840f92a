# On a fresh Debian or Ubuntu: `make demo` or `make test`, and nothing else. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

# Without root the tests that need it are left out, as the last line of a run says; `make test-root` asks for it.
UID := $(shell id -u)
NOT_ROOT := $(if $(filter 0,$(UID)),, and not root)
AS_ROOT := $(if $(filter 0,$(UID)),,sudo --preserve-env=CI,PATH,ANSIBLE_COLLECTIONS_PATH,ANSIBLE_HOME)
# Light hosts need root, too; without it all of the lab is virtual machines, which takes longer (tests/support/where.py). Both
# lanes of the lab often wait for a host: what needs no lab runs in the time that they leave, and the lane that takes longest
# goes first. Not by $(MAKE): make runs a line that has it even when it is only to print what it would do (make -n).
LAB = $(PYTEST) -v --durations=15 -m "lab and not slow$(if $(CI),, and not long)" --lane
# A test on light hosts waits for two thirds of its time: two processes, each with a lab of its own. Which files go together,
# and which begin, is in tests/support/where.py.
TWO = -n 2 --dist loadfile --no-loadscope-reorder
# These have a virtual machine of their own. Nothing else of that lane can run beside the rest of it, which ends last.
OWN = tests/e2e/test_lab.py
# Files with few tests have the long ones: not last, as pytest-xdist would have it.
FAST = $(PYTEST) -q --durations=20 -n auto --dist loadfile --no-loadscope-reorder -m "not lab and not slow" tests --ignore tests/takeover
SLOW = $(PYTEST) -q --durations=20 -n auto --dist load -m "not lab and slow" tests
# What a cluster needs once has tests of its own; of those on the lab, `make e2e` has all.
TAKEOVER = not slow$(if $(CI),, and not long)
test-all: TAKEOVER = not lab and not slow

export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/gpuadmin/collections
export ANSIBLE_HOME := $(CURDIR)/.ansible
# Thousands of Pythons are started, each of which would compile all of gpuadmin.
unexport PYTHONDONTWRITEBYTECODE

# What a machine lacks is asked for before the environment is made; and scripts that a zip has brought have no modes.
.NOTPARALLEL:

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: system-demo $(READY) ## a virtual cluster: accounts and a container, images, a semester's end (PARTS=accounts, slurm, semester, adopt or images for one; install: a new node)
	@$(BIN)/python scripts/demo.py $(PARTS)

.PHONY: test
test: system-test $(READY) ## checks, unit, contract, install; roles and verbs on the lab
	@mkdir -p .cache; echo "Tests on the lab run beside the others; what they print follows (.cache/light.log, virtual.log)."
	@: >.cache/virtual.log >.cache/light.log
	@failed=0; \
	$(LAB) virtual tests/e2e --ignore $(OWN) >.cache/virtual.log 2>&1 & virtual=$$!; \
	nice -n 5 $(LAB) light $(TWO) tests/e2e >.cache/light.log 2>&1 & light=$$!; \
	nice -n 10 bash scripts/lint || failed=1; \
	nice -n 10 $(FAST) || failed=1; \
	$(LAB) virtual $(OWN) || failed=1; \
	tail -n +1 -f --pid=$$light .cache/light.log; wait $$light || failed=1; \
	tail -n +1 -f --pid=$$virtual .cache/virtual.log; wait $$virtual || failed=1; exit $$failed

.PHONY: test-all
test-all: system-test $(READY) lint test-fast test-takeover test-slow test-mutants e2e ## all of it: with the faults that take long

.PHONY: test-fast
test-fast: system-fast $(READY) ## what needs no lab
	@$(FAST)

.PHONY: test-takeover
test-takeover: system-test $(READY) ## adopt, renumber, move-homes and move-docker, with their stories on light hosts
	@$(PYTEST) -q --durations=20 $(TWO) -m "$(TAKEOVER)" tests/takeover

.PHONY: test-slow
test-slow: system-fast $(READY) ## more seeds and moments of what needs no lab
	@$(SLOW)

.PHONY: test-changed
test-changed: system-fast $(READY) ## what a change touches, since these passed; the first time all of test-fast
	@$(BIN)/python scripts/changed.py "not lab and not slow$(NOT_ROOT)" $(ARGS)

.PHONY: test-root
test-root: system-test $(READY) ## what needs root: btrfs on loop devices, many cheap ssh hosts
	@$(AS_ROOT) $(PYTEST) -v -m root tests

.PHONY: test-mutants
test-mutants: system-test $(READY) ## take each guard out of the code, one at a time, and expect red tests (ARGS=WORD for some)
	@$(AS_ROOT) $(BIN)/python scripts/guards.py $(ARGS)

.PHONY: molecule
molecule: system-test $(READY) ## every role on the lab (ARGS="-k accounts" for one)
	@$(PYTEST) -v -m lab tests/e2e/test_roles.py $(ARGS)

.PHONY: e2e
e2e: system-test $(READY) ## roles and verbs on the lab, with faults
	@$(PYTEST) -v -m lab tests

.PHONY: hostile
hostile: system-test $(READY) ## hostile people while the verbs run: on a loop device, then on the lab (SEED=, MINUTES=10)
	@GPUADMIN_HOSTILE_SEED=$(SEED) $(PYTEST) -v tests/hostile tests/takeover/hostile
	@GPUADMIN_HOSTILE_SEED=$(SEED) GPUADMIN_HOSTILE_MINUTES=$(or $(MINUTES),10) $(PYTEST) -v -s tests/e2e/test_hostile.py

.PHONY: test-faults
test-faults: system-test $(READY) ## power cuts at every step, bad images, lost hosts: the whole matrix on the lab (hours)
	@$(PYTEST) -v -m lab tests/e2e/test_*_faults.py

.PHONY: lint
lint: $(READY) ## ruff, mypy, import rules, yamllint, codespell, ansible-lint
	@bash scripts/lint

.PHONY: format
format: $(READY) ## rewrite the Python files as ruff wants them
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

.PHONY: docs
docs: $(READY) ## write the pages that are made from code
	@$(BIN)/python scripts/make_docs.py

.PHONY: site
site: $(READY) ## the documentation as a site with a search, in build/site; a dead link is an error
	@# without --quiet, which would hide warnings from --strict
	@$(BIN)/python -m properdocs build --strict --clean -f .config/properdocs.yml
	@echo "build/site/index.html"

.PHONY: benchmarks
benchmarks: system-test $(READY) ## measure, and write the page of it (20 minutes, as root on an idle machine; ARGS=NAME for some)
	@$(AS_ROOT) $(BIN)/python benchmarks/run.py $(ARGS)
	@$(BIN)/python scripts/make_docs.py

.PHONY: lock
lock: ## write requirements.lock again, in its own environment
	@bash scripts/lock

.PHONY: venv
venv: $(READY) ## .venv, with gpuadmin and all its tools

$(READY): pyproject.toml requirements.lock scripts/bootstrap
	@bash scripts/bootstrap venv $(VENV)
	@touch $@

.PHONY: system-fast system-demo system-test
system-fast system-demo system-test: system-%:
	@bash scripts/bootstrap system $*

.PHONY: clean
clean: ## delete what was made here (the lab's image in ~/.cache stays)
	rm -rf $(VENV) .ansible .mypy_cache .ruff_cache .pytest_cache .hypothesis .testmondata* build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
