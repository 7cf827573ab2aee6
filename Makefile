# hvdprof from nothing. On a fresh Debian machine with Python 3.11 and make:
#   make bench                                            measure the quick preset
#   make bench ARGS="--np 1,2,4,8 --models resnet50"      measure something else
#   make test                                             run every test
# `make help` lists the rest. Nothing is installed outside VENV, except Debian packages when root.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pips in one environment would disturb each other.
.NOTPARALLEL:
.PHONY: help setup bench test test-fast test-changed record-runs test-lowest test-tensorflow test-frameworks gpu-pack gpu-check check docs docs-check clean

# The first that runs and is new enough: a name in PATH may be an empty shell of a version manager.
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
VENV ?= .venv
TENSORFLOW_VENV ?= .venv-tensorflow
FRAMEWORKS_VENV ?= .venv-frameworks
LOWEST_VENV ?= .venv-lowest
ARGS ?=
# test-changed: the commit to compare with, and whether only to list.
BASE ?=
DRY ?=
COV := -p tests.parts.first_cases --cov
INSTALL_HOROVOD_ARGS ?=

PIP_VERSION := 26.3
UV_VERSION := 0.13.9
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Python compiles what it imports, once: a third of all that is installed here, in a tenth of the time.
PIP_INSTALL := $(PIP) install --no-compile --constraint constraints.txt
# The large files that pip downloads, and when it unpacks: minutes may lie in between.
PIP_PROGRESS := awk '/^ *(Downloading|Using cached) .*[0-9] MB/ { sub(/^ */, ""); sub(/https?:[^ ]*\//, ""); print "  " $$0 } \
  /^Installing collected packages/ { print "  Unpacking " NF - 3 " packages" } { fflush() }'
# Every test is in exactly one part: tests/test_parts.py.
PURE = --pure -n logical --dist worksteal
LIGHT := not heavy
REAL := horovod or browser or install or root
ALONE := timing or gpu
# Each part writes down what failed in it, for the summary after the last one.
PART = $(BIN)/python -m pytest -p tests.parts.plugin --part
# Tests start hundreds of commands and ranks: none of them shall compile anew.
unexport PYTHONDONTWRITEBYTECODE

# $(call provide,test command,what is missing,Debian packages)
define provide
if ! { $(1); } >/dev/null 2>&1; then \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    echo "$(2) missing: installing the Debian packages $(3)"; \
    apt-get install -y --no-install-recommends $(3) \
      || { apt-get update && apt-get install -y --no-install-recommends $(3); }; \
  else \
    echo "$(2) missing. On Debian or Ubuntu: apt-get install -y --no-install-recommends $(3)" >&2; \
    exit 1; \
  fi; \
fi
endef

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.hvdprof-horovod $(VENV)/.hvdprof-dev  ## Install hvdprof, Horovod and the tools of development.

bench: $(VENV)/.hvdprof-horovod  ## Measure on this machine; ARGS="..." goes to `hvdprof bench`.
	$(BIN)/hvdprof bench --preset quick $(ARGS)

test-fast: $(VENV)/.hvdprof-fast  ## Run what needs nothing but Python, in an environment without torch: 1 minute on two cores.
	$(BIN)/python -m pytest --fast -n logical --dist worksteal --durations=10 --durations-min=0.5 $(ARGS)

test-lowest: $(LOWEST_VENV)/.hvdprof-lowest  ## Run the fast tests with the lowest versions that pyproject.toml allows.
	$(LOWEST_VENV)/bin/python -m pytest $(PURE) -W ignore::DeprecationWarning $(ARGS)

# Tests that wait for deadlines: six at a time. Real ranks and browsers: four files at a time on any
# machine, the longest first (tests/conftest.py). What measures time runs alone.
test: setup $(VENV)/.hvdprof-sessions  ## Run every test, 25 minutes on two cores: the light ones with coverage, the rest, and alone what measures time.
	@$(call provide,command -v chromium,A browser for the tests of the dashboard is,chromium)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { $(call provide,PATH="$$PATH:/usr/sbin" command -v slurmctld && PATH="$$PATH:/usr/sbin" command -v slurmd && command -v srun && command -v munge && ls /usr/lib/*/pmix2/lib/libpmix.so,Slurm for the tests of its launcher is,slurmctld slurmd slurm-client munge libpmix-dev); }
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { $(call provide,java -version,Java for the tests on Spark is,default-jre-headless); }
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { $(call provide,command -v promtool && command -v prometheus,Prometheus for the tests of its metrics is,prometheus); }
	rm -f build/parts.jsonl; failed=0; \
	$(PART) light $(PURE) -m "$(LIGHT)" $(COV) || failed=1; \
	$(PART) long -n logical --dist worksteal -m "(slow or torch or heavy) and not (waits or $(REAL) or $(ALONE))" || failed=1; \
	$(PART) waits -n 6 --dist worksteal -m "waits and not ($(ALONE))" || failed=1; \
	$(PART) real -n 4 --dist loadfile --no-loadscope-reorder -m "($(REAL)) and not (waits or $(ALONE))" || failed=1; \
	$(PART) alone -m "$(ALONE)" || failed=1; \
	$(BIN)/python -m tests.parts light long waits real alone || failed=1; \
	exit $$failed

# The recipe of `make test`: a plugin omits what the change does not need.
test-changed: $(VENV)/.hvdprof-dev  ## Run the tests that a change since BASE=COMMIT (else origin/main) needs, 11 minutes for a module in hvdprof/analyze; DRY=1 lists them.
	@$(BIN)/python -m tests.selection $(if $(BASE),--base $(BASE)) $(if $(DRY),,--output build/changed_tests.json)
	$(if $(DRY),,@PYTEST_ADDOPTS="-p tests.selection.plugin --selection build/changed_tests.json" $(MAKE) --no-print-directory COV= test)

test-tensorflow: $(TENSORFLOW_VENV)/.hvdprof-horovod  ## Run the tests of TensorFlow and Keras, in an environment of their own.
	$(TENSORFLOW_VENV)/bin/python -m pytest -m tensorflow tests/test_run_tensorflow.py $(ARGS)

test-frameworks: $(FRAMEWORKS_VENV)/.hvdprof-frameworks  ## Run the tests of Lightning, Accelerate, Transformers and Keras, in an environment of their own.
	$(FRAMEWORKS_VENV)/bin/python -m pytest -m frameworks tests/test_run_frameworks.py tests/live/test_callbacks.py $(ARGS)

record-runs: setup  ## Record anew the runs that tests replay, on an idle machine: five minutes. ARGS are names.
	$(BIN)/python -m tests.builders.recorded_runs $(ARGS)
	COLUMNS=80 NO_COLOR=1 $(BIN)/python -m tests.builders.golden_texts $(ARGS)

gpu-pack: $(VENV)/.hvdprof-core  ## Pack build/hvdprof-gpu-check.tar for a machine with one NVIDIA GPU and no network.
	$(BIN)/python -m benchmarks.gpu_check_pack $(ARGS)

# In the unpacked folder, with the torch that is there: no environment of this Makefile.
gpu-check:  ## Check the GPU paths on such a machine: docs/gpu.md.
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is missing: make gpu-check PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m benchmarks.gpu_check $(ARGS)

check: $(VENV)/.hvdprof-dev docs-check docs  ## Format, lint, types, import layers, generated documentation, workflows.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x $(BIN)/actionlint ]; then echo "$(BIN)/actionlint .github/workflows/*.yml"; \
	  $(BIN)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml; \
	else echo "The workflows are not checked: actionlint has no wheel for this machine."; fi

docs-check: $(VENV)/.hvdprof-dev  ## Generated pages of the documentation are those of the code.
	$(BIN)/python docs/generate.py --check

docs: $(VENV)/.hvdprof-dev  ## Build the documentation site into build/site; fails on any warning.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## Remove the virtual environment and every cache here; runs/ and the kept wheels stay.
	rm -rf $(VENV) $(TENSORFLOW_VENV) $(FRAMEWORKS_VENV) $(LOWEST_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -not -path './$(TENSORFLOW_VENV)/*' -not -path './$(FRAMEWORKS_VENV)/*' -not -path './$(LOWEST_VENV)/*' -prune -exec rm -rf {} +

TENSORFLOW := tensorflow==2.21.0 keras==3.15.1 tf_keras==2.21.0
TENSORFLOW_PIP := $(TENSORFLOW_VENV)/bin/python -m pip --disable-pip-version-check

$(TENSORFLOW_VENV)/.hvdprof-tensorflow: pyproject.toml
	$(PYTHON) -m venv $(TENSORFLOW_VENV)
	$(TENSORFLOW_PIP) install --quiet pip==$(PIP_VERSION)
	$(TENSORFLOW_PIP) install --quiet --editable . $(TENSORFLOW) cffi cloudpickle packaging psutil pyyaml --group test
	touch $@

$(TENSORFLOW_VENV)/.hvdprof-horovod: $(TENSORFLOW_VENV)/.hvdprof-tensorflow
	$(TENSORFLOW_VENV)/bin/hvdprof install-horovod --tensorflow $(INSTALL_HOROVOD_ARGS)
	touch $@

# Beside the torch of VENV, whose packages are seen here and never replaced.
FRAMEWORKS := lightning==2.6.6 accelerate==1.15.0 transformers==5.23.0 keras==3.15.1 tensorboard==2.21.0
PURELIB = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

$(FRAMEWORKS_VENV)/.hvdprof-frameworks: $(VENV)/.hvdprof-dev
	$(BIN)/python -m venv $(FRAMEWORKS_VENV)
	echo "import site; site.addsitedir('$$($(BIN)/python $(PURELIB))')" \
	  > "$$($(FRAMEWORKS_VENV)/bin/python $(PURELIB))/packages_of_hvdprof.pth"
	$(FRAMEWORKS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile \
	  --constraint constraints.txt $(FRAMEWORKS)
	touch $@

# The stamps: a second call does nothing.
$(VENV)/.hvdprof-pip:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is missing. On Debian or Ubuntu: apt-get install -y --no-install-recommends python3 python3-venv python3-dev, else: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is $$($(PYTHON) -V 2>&1); hvdprof needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(call provide,$(PYTHON) -c "import ensurepip",Python's module venv is,python3-venv)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet pip==$(PIP_VERSION)
	touch $@

$(VENV)/.hvdprof-fast: $(VENV)/.hvdprof-pip pyproject.toml constraints.txt
	@echo "Installing the extras and pytest:"
	@$(PIP_INSTALL) --editable '.[chakra,dashboard,fast,report,sql]' --group test | $(PIP_PROGRESS)
	@touch $@

$(VENV)/.hvdprof-core: $(VENV)/.hvdprof-pip pyproject.toml constraints.txt
	@echo "Installing hvdprof and torch:"
	@$(PIP_INSTALL) --editable '.[bench]' | $(PIP_PROGRESS)
	@touch $@

# Of what pyproject.toml names; what that needs in turn is new, and warns of what is old.
$(LOWEST_VENV)/.hvdprof-lowest: pyproject.toml
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip --disable-pip-version-check install --quiet uv==$(UV_VERSION)
	$(LOWEST_VENV)/bin/uv pip install --quiet --python $(LOWEST_VENV)/bin/python --resolution lowest-direct \
	  --editable '.[chakra,dashboard,fast,report,sql]' --group test
	@touch $@

# By name, for hvdprof itself stays as it is: install-horovod runs meanwhile.
$(VENV)/.hvdprof-all: $(VENV)/.hvdprof-core
	@echo "Installing the other extras:"
	@$(PIP_INSTALL) 'hvdprof[all]' | $(PIP_PROGRESS)
	@touch $@

$(VENV)/.hvdprof-dev: $(VENV)/.hvdprof-all
	@echo "Installing the tools of development:"
	@$(PIP_INSTALL) --group dev | $(PIP_PROGRESS)
	@touch $@

# Large, and needed by the tests of functions alone.
$(VENV)/.hvdprof-sessions: $(VENV)/.hvdprof-all
	@echo "Installing Spark, Ray and what runs notebooks:"
	@$(PIP_INSTALL) 'hvdprof[spark,ray]' --group notebook | $(PIP_PROGRESS)
	@touch $@

# The compiler needs torch alone: the other extras are installed meanwhile.
$(VENV)/.hvdprof-horovod: $(VENV)/.hvdprof-core
	@echo "Installing Horovod, and the other extras meanwhile (log: $(VENV)/extras.log):"
	@$(MAKE) --no-print-directory $(VENV)/.hvdprof-all > $(VENV)/extras.log 2>&1 & extras=$$!; \
	failed=0; $(BIN)/hvdprof install-horovod $(INSTALL_HOROVOD_ARGS) || failed=$$?; \
	wait $$extras || { cat $(VENV)/extras.log >&2; exit 1; }; \
	exit $$failed
	@touch $@
