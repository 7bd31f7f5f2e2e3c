# Every target sets up what it needs, on a fresh machine with Python 3.11+, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: help setup run test check bench soak lock speed clean

help:
	@echo "make run     start Headrace on loopback with its data in ./data, and the demo"
	@echo "make test    the tests, with real clients"
	@echo "make check   ruff, strict types, layering"
	@echo "make bench   ratios against a real Apache Kafka and RabbitMQ (needs Java 17, Go, rabbitmq-server)"
	@echo "make soak    long campaigns: hundreds of kills, hours of fuzzing"
	@echo "make setup   only create $(VENV)"
	@echo "make lock    pin the newest allowed versions in requirements.lock"

setup: $(STAMP)
	@$(BIN)/python -m compileall -q src/headrace

$(STAMP): requirements.lock pyproject.toml setup.py $(wildcard src/headrace/*.pyx src/headrace/*.pxi src/headrace/*.h)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

run: setup
	$(BIN)/headrace demo --data data

test: setup
	HEADRACE_PURE=1 $(BIN)/python -m pytest -q -n auto tests/log tests/broker tests/multicast tests/kinesis/data tests/kafka/test_frames.py tests/interop/test_kafka_python.py
	$(BIN)/python -m pytest -n auto

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layering.py

bench: setup
	$(BIN)/python -m bench

soak: setup
	HEADRACE_SOAK=1 $(BIN)/python -m pytest -q -n auto tests/log
	HEADRACE_SOAK=1 $(BIN)/python -m pytest -q --timeout=0 tests/webhooks/test_machine.py tests/broker/routes tests/broker/streams tests/kinesis/data/test_twin.py tests/interop/test_across_protocols.py
	$(BIN)/python -m pytest -q tests/soak tests/kafka tests/kinesis tests/spark/tables --soak

speed: setup
	$(BIN)/python setup.py -q build_ext --inplace

lock:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --all-extras --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build $(patsubst %.pyx,%.c,$(wildcard src/headrace/*.pyx)) src/headrace/*.so
