# Two commands on a fresh machine: `make demo` and `make test`. Python 3.11+, Java 17+.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
LONG ?=
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -q --durations=40 --durations-min=4 $(LONG)
# Processes of tests start many others: those need not compile all modules each.
unexport PYTHONDONTWRITEBYTECODE
SUITE = --ignore=tests/interop --ignore=tests/benchmarks
COLLECT = $(BIN)/python -m pytest -qqq --collect-only --cluster tests
STAMP = $(VENV)/.installed
CLASSES = $(VENV)/spark-classes.jsa
DOCS = $(VENV)-docs
CONNECTOR = SLACKWATER_CONNECTOR=$$($(BIN)/python -m tests.stores.install_connector)
HDFS = SLACKWATER_HDFS=$$($(BIN)/python -m tests.hadoop.install_hdfs)
STRICT = SLACKWATER_SERVERS=$$($(BIN)/python -m tests.stores.install_servers)
ON_CLUSTER = tests/cluster tests/stores tests/spark/lake $(addprefix tests/spark/,read/test_read.py read/test_arrow_rows.py \
	read/test_change_feed.py read/planning/test_distributed_checkpoint.py read/test_pruning.py write/test_write.py write/test_overwrite.py \
	history/test_system_time.py table/test_checkpoints.py $(addprefix dml/,merge/test_merge.py test_assignments.py \
	test_moved_rows.py test_delete.py test_update.py test_change_feed_of_dml.py test_concurrent_dml.py))

.PHONY: demo docs test test-long classes test-kernel test-classic test-connect interop stores cluster bench-smoke browser wheel-smoke sbom people check bench environment clean help fix

help:  ## print each target with its purpose
	@grep -hE '^[a-z-]+:.*  ## ' Makefile | sed -E 's/:.*  ## /\t/' | sort | awk -F'\t' '{printf "%-14s %s\n", $$1, $$2}'

environment: $(STAMP)  ## build .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) tools/check_environment.py
	@echo "Building the environment in $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e ".[connect,png,postgres,server,stores]" --group demo --group peers --group test
	@touch $(STAMP)

demo: environment  ## build the environment and run the main job on real data
	@$(BIN)/python -m demo.flights

# The tests, some parts at once, each part's minutes at the end; `make test-long` leaves nothing out.
test: environment  ## all tests of the short run, three parts
	@$(BIN)/python tools/parts.py test-classic test-kernel test-connect

test-long: environment  ## every variation, interop and benchmarks too
	@LONG=--long $(BIN)/python tools/parts.py test-classic test-kernel test-connect interop bench-smoke

# Spark's classes as JVMs of tests share them, which then start in half of the time: made once for an environment, beside
# the tests without Spark. Where that fails, it is for the tests to say why.
classes: $(CLASSES)  ## archive Spark's classes, so that JVMs of tests start faster

$(CLASSES): $(STAMP)
	-@$(BIN)/python -m tests.java

# Without Spark: in processes by file, as much of it waits for others.
test-kernel: environment  ## tests without Spark
	$(PYTEST) $(SUITE) -m "not spark" -n $(WORKERS) --dist loadfile

# The Spark tests in Spark's classic mode.
test-classic: environment classes  ## tests with Spark in the driver's process
	$(PYTEST) $(SUITE) -m spark

# The Spark tests again, through Spark Connect: the two modes do not live in one process.
test-connect: environment classes  ## tests with Spark Connect
	$(PYTEST) $(SUITE) -m spark --connect

# Tables of ours before delta-spark itself, and its tables before us; Maven fetches its JARs once. Then engines in a bucket.
interop: environment  ## delta-spark and other engines beside Slackwater
	$(BIN)/python -m tests.interop.install_delta_spark
	$(PYTEST) tests/interop tests/stores/test_other_engines.py

# Tables in object stores: with Spark's own connector for S3, and before servers that ask for more than the suite's; on an
# HDFS in a process. Maven, Go and npm fetch them once. Without these, the tests are in the suite.
stores: environment  ## object stores, strict servers and HDFS
	$(BIN)/python -m tests.stores.install_connector
	$(BIN)/python -m tests.stores.install_servers
	$(BIN)/python -m tests.hadoop.install_hdfs
	$(HDFS) $(PYTEST) --long tests/hadoop tests/contract/test_object_store.py -m spark
	$(STRICT) $(PYTEST) tests/contract/test_object_store.py
	$(STRICT) $(PYTEST) --long tests/stores
	$(STRICT) $(PYTEST) --long tests/stores --connect
	$(STRICT) $(CONNECTOR) $(PYTEST) --long tests/stores
	$(STRICT) $(CONNECTOR) $(PYTEST) --long tests/stores --connect

# Spark as several processes: a master and two workers, and a Connect server that its client did not start.
cluster: environment  ## Spark as several processes
	$(PYTEST) --cluster --all -m spark $(ON_CLUSTER)
	$(PYTEST) --cluster -m spark --connect $(ON_CLUSTER)

# The wheel in new environments: Pythons from 3.10, PySpark 4.0 to the newest, both modes; SMOKE="--pyspark 4.0" is less.
wheel-smoke: environment  ## the wheel on each Python and PySpark
	$(BIN)/python -m tools.wheel_smoke $(SMOKE)

# CycloneDX as JSON, in dist/: what the wheel and its extras install, with the versions of constraints.txt.
sbom: environment  ## write the software bill of materials of the release
	$(BIN)/python -m tools.sbom

# The wheel in one new environment, and every page in a new process in an empty folder; PEOPLE="--page docs/start.md".
people: environment  ## README, start and every guide as a reader pastes them
	$(BIN)/python tools/people.py $(PEOPLE)

# The benchmarks run, on little data, and both sides of each agree.
bench-smoke: environment  ## each benchmark on little data
	$(PYTEST) tests/benchmarks

# Pages in headless Chromium, which must be on the PATH.
browser: environment  ## pages in headless Chromium
	$(PYTEST) --browser tests/owner/served/console/test_in_a_browser.py tests/visualization/test_timeline.py

# Style, types, and that every test module can be read: a name that moved is found before the tests run.
check: environment  ## lint, format, types, and that tests can be read
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(COLLECT) > /dev/null || { $(COLLECT) | grep -A 12 ERROR; false; }

fix: environment  ## format, and repair what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: environment  ## the benchmarks
	$(BIN)/python -m benchmarks

# The site of docs/ and of the docstrings, in build/site: without network once its environment is there, and strictly. A
# diagram that is not drawn yet: tools/diagrams.py.
docs: $(DOCS)/.installed  ## build the site into build/site
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html"

$(DOCS)/.installed: pyproject.toml
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

clean:  ## remove what the targets made
	rm -rf $(VENV) $(DOCS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-data spark-warehouse
