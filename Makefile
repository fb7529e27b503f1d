# `make` prints this list. Each target makes the environment it needs by itself.
.DEFAULT_GOAL := help
.PHONY: environments help setup demo unit test test-share test-all test-machine test-random test-long test-spark4 test-lowest test-databricks test-combinations test-real real spark4 bench lint docs lock clean distclean

# A Python 3.10, 3.11, 3.12 or 3.13 for .venv; setup.sh looks for one where this is empty.
PYTHON ?=
export PYTHON

# Where Hypothesis remembers failing examples; every other cache is set in pyproject.toml.
export HYPOTHESIS_STORAGE_DIRECTORY := .afterimage/cache/hypothesis

BIN := .venv/bin

COMPILE = uv pip compile --quiet --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade) --custom-compile-command "make lock"

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

# Takes milliseconds where .venv is up to date: setup.sh keeps a stamp in it.
setup: ## Make or heal the environment in .venv (PYTHON=/path/to/python chooses the Python)
	@./setup.sh

# The formats are targets of the profile: local has Iceberg.
TARGET ?= local
demo: setup ## Show what Afterimage does, on this machine alone (TARGET=delta: with Delta)
	@DBT_TARGET=$(TARGET) $(BIN)/python -m dbt_afterimage.commands.demo

docs: setup ## Build the pages in docs/ as a site below .afterimage/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: setup docs ## Check style, formatting and types of Python, and the SQL's style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy python_udfs tests/python tests/databricks tests/mutations tests/sqlfluff docs/hooks.py docs/arguments.py
	$(BIN)/sqlfluff lint --disable-progress-bar models
# The body of a macro renders to nothing, so sqlfluff takes its indents and its end for wrong.
	$(BIN)/sqlfluff lint --disable-progress-bar --exclude-rules layout.indent,layout.end_of_file macros tests/generic

# Two processes, each with a Spark of its own: planning, which most of the time goes into, uses one core.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

unit: setup ## Run the tests that need no Spark (seconds)
	$(BIN)/python -m pytest -q -n 2 tests/python/unit

test: lint ## Run lint and the quick tests, as before each commit (minutes)
	$(PYTEST)

# Every fifth quick test, of those marked slow one in twenty-four, of those marked minutes one in 120, and new random cases: others every three hours. Then both state
# machines at once, for minutes. TURN=164820 repeats a run.
TURN ?= $(shell expr $$(date +%s) / 10800)
# Lint, and at the same time the other environments with the tests of dbt-databricks: neither keeps two cores busy.
test-share: setup ## Run lint, the tests without Spark, and a share of all others, as CI does
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint environments
	$(PYTEST) -m "not long" --share=$(TURN)/150 --share-slow=$(TURN)/30 --share-quick=$(TURN)/6 --hypothesis-seed=$(TURN) --durations=60
	$(BIN)/python tests/python/support/combinations.py --draw=$(TURN)/251 --hypothesis-seed=$(TURN)
	AFTERIMAGE_SECONDS=60 $(PYTEST) -m long tests/python/machine --hypothesis-seed=$(TURN)

test-all: lint real test-databricks spark4 ## Run these and all that take minutes, on every Spark and table format
	$(PYTEST) -m "not long"
	$(BIN)/python tests/python/support/combinations.py

# AFTERIMAGE_SECONDS=600 ends sooner. The last --hypothesis-seed printed repeats a failure.
AFTERIMAGE_SECONDS ?= 3600
test-random: setup ## Run the property tests for an hour, with new random cases each time
	@end=$$(($$(date +%s) + $(AFTERIMAGE_SECONDS))); while [ $$(date +%s) -lt $$end ]; do \
		seed=$$(date +%s); echo "--hypothesis-seed=$$seed"; \
		$(PYTEST) -m "hypothesis and not long" --hypothesis-seed=$$seed || exit 1; done

# AFTERIMAGE_SECONDS=600 ends sooner. --hypothesis-seed, as it is printed, repeats a failure.
test-machine: setup ## Let state machines draw what happens between runs, for an hour
	@seed=$$(date +%s); echo "--hypothesis-seed=$$seed"; \
		AFTERIMAGE_SECONDS=$$(($(AFTERIMAGE_SECONDS) / 2)) $(BIN)/python -m pytest -q -s -m long tests/python/machine --hypothesis-seed=$$seed

# Ten times as many random cases, and new ones in each run. Then the SQL is broken, one rule at a time.
test-long: lint real test-databricks ## Run lint and all tests (hours)
	AFTERIMAGE_EXAMPLES=$${AFTERIMAGE_EXAMPLES:-50} $(BIN)/python -m pytest -q -m "long or not long"
	$(BIN)/python tests/mutations/mutate.py

spark4:
	@AFTERIMAGE_VENV=.venv-spark4 AFTERIMAGE_LOCK=requirements-spark4.lock ./setup.sh

# ONLY=delta, or ONLY="spark 4.1" chooses some. `make test-share` draws a quick test of each.
test-combinations: setup spark4 ## Run the tests of tables on each other Spark and table format (hours)
	$(BIN)/python tests/python/support/combinations.py --only="$(ONLY)"

# In an environment of its own, with Iceberg: the examples with all their tests in ANSI mode, and the runtime.
test-spark4: spark4 ## Run the tests that Spark 4 has a part in (makes .venv-spark4)
	AFTERIMAGE_ANSI=true .venv-spark4/bin/python -m pytest -q -m "not long" tests/python/packaging/test_project.py
	.venv-spark4/bin/python -m pytest -q -m "not long" tests/python/runtime

# In an environment of its own, with the oldest versions that pyproject.toml allows.
test-lowest: ## Run the tests of Python's side with the oldest versions allowed (makes .venv-lowest)
	@AFTERIMAGE_VENV=.venv-lowest AFTERIMAGE_LOCK=requirements-lowest.lock ./setup.sh
	.venv-lowest/bin/python -m pytest -q -m "not minutes and not long" \
		tests/python/unit tests/python/runtime/test_udfs_in_spark.py tests/python/commands

# In an environment of its own, with dbt-databricks: what it parses, compiles and would send to a warehouse.
test-databricks: ## Run the tests of the package under dbt-databricks (makes .venv-databricks)
	@AFTERIMAGE_VENV=.venv-databricks AFTERIMAGE_LOCK=requirements-databricks.lock ./setup.sh
	.venv-databricks/bin/python -m pytest -q -W ignore tests/databricks

environments: real test-databricks spark4

# A connector's engine, with all its jars and a Java, in an environment of its own.
real:
	@AFTERIMAGE_VENV=.venv-real AFTERIMAGE_LOCK=requirements-real.lock ./setup.sh

# PostgreSQL and MariaDB are the machine's, and the jars of the broker and of the connector for MariaDB come
# from Maven Central: without them tests are skipped, and say so.
test-real: setup real ## Run real parts: Debezium on PostgreSQL and MariaDB, a Kafka broker (makes .venv-real)
	$(PYTEST) -rs -m "not long" tests/python/real

# BENCH="--changes 10000000" chooses other sizes. The tables it makes are kept below .afterimage/benchmark.
bench: setup ## Measure against the engine's limit, hand-written SQL and DuckDB (minutes)
	$(BIN)/python tests/benchmark/bench.py $(BENCH)

# Needs uv on PATH (pip install uv). The newest versions that pyproject.toml allows, for Python
# 3.10 to 3.13 on every platform; a version already locked stays unless UPGRADE=1 is given.
lock: ## Rewrite the lock files from pyproject.toml (UPGRADE=1: newest versions)
	$(COMPILE) --python-version 3.10 --extra local --extra server --extra pages --extra bench --extra docs --extra dev \
		--output-file requirements.lock pyproject.toml
	$(COMPILE) --python-version 3.10 --extra spark4 --extra server --extra pages --extra dev \
		--output-file requirements-spark4.lock pyproject.toml
	$(COMPILE) --python-version 3.10 --resolution lowest-direct --extra local --extra server --extra pages --extra dev \
		--output-file requirements-lowest.lock pyproject.toml
	$(COMPILE) --python-version 3.10 --extra databricks --extra dev --output-file requirements-databricks.lock pyproject.toml
	$(COMPILE) --python-version 3.10 --group pyproject.toml:real --output-file requirements-real.lock

clean: ## Remove all state: warehouse, dbt's output, caches
	rm -rf .afterimage target logs .hypothesis
	find . -name ".venv*" -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove the environment too
	rm -rf .venv .venv-databricks .venv-lowest .venv-real .venv-spark4 python_udfs/*.egg-info build dist
