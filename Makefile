# Two commands on a fresh machine: `make demo` and `make test`. Python 3.10+, Java 17+.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test test-classic test-connect interop check bench environment clean

environment: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) tools/check_environment.py
	@echo "Building the environment in $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[connect,demo,peers,postgres,server,test]"
	@touch $(STAMP)

demo: environment
	@$(BIN)/python -m demo.flights

test: test-classic test-connect

# Everything, with Spark in its classic mode.
test-classic: environment
	$(BIN)/python -m pytest -q

# The Spark tests again, through Spark Connect: the two modes do not live in one process.
test-connect: environment
	$(BIN)/python -m pytest -q -m spark --connect

# Tables of ours before delta-spark itself, and its tables before us; Maven fetches its JARs once.
interop: environment
	$(BIN)/python -m tests.interop.install_delta_spark
	$(BIN)/python -m pytest -q tests/interop

check: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: environment
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-data spark-warehouse
