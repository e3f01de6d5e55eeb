# `make demo`, `make test` and `make lint` each set up what they need: a virtual environment in .venv, with the packages
# of pyproject.toml in it and the modules generated from proto/.

PYTHON ?= python3
PYTEST_ARGS ?=
FUZZ_ARGS ?=
# Where the seeds of the night begin: another each day. `make test-nightly SEED=20260131` repeats that day's.
SEED ?= $(shell date +%Y%m%d)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
GENERATED := replica/v1/__init__.py

# Hundreds of processes start here, and where Python may not keep what it has compiled each compiles all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo docs test test-computing test-processes test-quick test-nightly lint fuzz images release sim soak soak-drift soak-judges soak-membership soak-power-loss soak-replaced-disks soak-sim soak-sim-clusters soak-sim-groups variants bench bench-peers screenshots proto clean python java

help:
	@echo "make demo   run three replicas under faults, judge the history, write a report (needs Java 17+)"
	@echo "make test   run all tests (needs Java 17+); PYTEST_ARGS='-k name' is passed on"
	@echo "make test-quick  after each edit: of every test without Java and processes one case, over few seeds"
	@echo "make test-nightly  all tests over forty times as many seeds, from SEED=N on; by default N is today's date"
	@echo "make docs   build the documentation's site into site/, its reference from the code; no network is needed"
	@echo "make lint   check style, types and the wire protocol"
	@echo "make fuzz   a million inputs for every decoder, and write store/fuzz.json (hours); FUZZ_ARGS='--decoder rpc-' is passed on"
	@echo "make images  build both container images (needs Docker, or root on Debian); BASE=IMAGE says from what"
	@echo "make release  build, try and list what users install, into dist/; TAG=v1.2.3 and SIGN_KEY=FILE are looked at"
	@echo "make sim    simulate 500 seeds (a minute or two)"
	@echo "make soak   run seeds 1 to 20 of 60 s each over 3 topics, and write store/soak.json (half an hour)"
	@echo "make soak-drift  one cluster for 30 minutes, watched for drift, with store/soak-drift.json and its chart in docs/"
	@echo "make soak-membership  the same of registers while voters come and go, with store/soak-membership.json"
	@echo "make soak-power-loss  all lose their power at once, in 20 seeds with flushes and 20 without (half an hour)"
	@echo "make soak-replaced-disks  all are killed and one disk is replaced, 20 times each case, with store/soak-replaced-disks.json (half an hour)"
	@echo "make soak-sim  simulate 10,000 seeds, and write store/sim.json (half an hour on two cores)"
	@echo "make soak-sim-clusters  the same of whole clusters, with store/sim-clusters.json (an hour on two cores)"
	@echo "make soak-sim-groups  the same of state machines, with store/sim-groups.json (an hour and a half on two cores)"
	@echo "make soak-judges  10,000 histories of each model and form, judged in every way, with store/judges.json (two hours)"
	@echo "make variants  convict every wrong protocol, and write store/variants.json and docs/variants.md"
	@echo "make bench  measure the simulator, clusters, judging, topics as tables, groups, writes, keys and values, clients, partitions, failovers, slow disks, large logs, recovery and hostile clients, and write store/bench*.json"
	@echo "make bench-peers  measure Kafka, etcd and RabbitMQ beside, and write store/bench-peers.json, docs/performance.md and its chart (25 minutes)"
	@echo "make screenshots  take the pictures of docs/screenshots.md anew (needs Chromium; three minutes)"
	@echo "make proto  generate replica/v1 from proto/"
	@echo "make clean  remove everything that make has made but images; recorded runs in store/ stay"

demo: java $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis demo

soak: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis soak --seeds 1-20 --time-limit 60 --nemesis partition,kill,pause,rolling-restart \
		--nodes 3 --topics 3 --partitions 4 --replication-factor 3 --min-insync-replicas 2 --acks all --idempotence

# Few kills, and a pause between faults, so that processes live long enough to drift; little is kept of each partition.
DRIFT = --time-limit 1800 --seed 1 --nemesis-interval 45 --nemesis partition:3,pause:3,burst:2,delay:2,kill \
	--topics 2 --partitions 2 --retention-bytes 32768 --rate 40 --store store/soak-drift

soak-drift: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis run $(DRIFT); valid=$$?; \
	$(BIN)/nemesis drift store/soak-drift/append/latest --output store/soak-drift.json --chart docs/soak-drift.svg && exit $$valid

soak-membership: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis soak --seeds 1-20 --time-limit 60 --workload register --nemesis partition,kill,pause,membership \
		--must-see leader-changes,snapshots-installed,membership-changes --output store/soak-membership.json

POWER_LOSSES = --seeds 1-20 --time-limit 30 --nemesis power-loss

# Replicas that acknowledge before they flush must be found out: an invalid run, and so status 1.
soak-power-loss: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis soak $(POWER_LOSSES) --output store/soak-power-loss.json
	$(BIN)/nemesis soak $(POWER_LOSSES) --log-flush os --output store/soak-power-loss-unflushed.json; test $$? -eq 1

soak-replaced-disks: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m tests.cluster.soak_replaced_disks --times 20 --output store/soak-replaced-disks.json

sim: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis sim --seeds 500

soak-sim: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis sim --seeds 10000 --output store/sim.json

soak-sim-clusters: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis sim --world cluster --seeds 10000 --output store/sim-clusters.json

soak-sim-groups: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis sim --world group --seeds 10000 --output store/sim-groups.json

soak-judges: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m tests.judges.soak --histories 10000 --output store/judges.json

variants: $(INSTALLED) $(GENERATED)
	$(BIN)/nemesis convict --trials 3 --output store/variants.json --table docs/variants.md

bench: $(INSTALLED) $(GENERATED)
	$(BIN)/python benchmarks/simulator.py --output store/bench.json
	$(BIN)/python benchmarks/cluster.py --output store/bench-cluster.json
	$(BIN)/python benchmarks/linearizability.py --output store/bench-linearizability.json
	$(BIN)/python benchmarks/planted.py --output store/bench-planted.json
	$(BIN)/python benchmarks/pipeline.py --output store/bench-pipeline.json
	$(BIN)/python -m benchmarks.pipeline_memory --operations 350000 --runs 1000 --output store/bench-pipeline-memory.json
	$(BIN)/python benchmarks/topics_as_tables.py --output store/bench-tables.json
	$(BIN)/python benchmarks/group_restart.py --output store/bench-groups.json
	$(BIN)/python -m benchmarks.group_snapshot --output store/bench-snapshots.json
	$(BIN)/python -m benchmarks.write_path --output store/bench-write-path.json
	$(BIN)/python -m benchmarks.key_value --output store/bench-key-value.json
	$(BIN)/python -m benchmarks.client_cost --output store/bench-client-cost.json
	$(BIN)/python -m benchmarks.idle_consumers --output store/bench-idle-consumers.json
	$(BIN)/python -m benchmarks.many_partitions --output store/bench-many-partitions.json
	$(BIN)/python -m benchmarks.failover --output store/bench-failover.json
	$(BIN)/python -m benchmarks.slow_disk --output store/bench-slow-disk.json
	$(BIN)/python -m benchmarks.large_log --output store/bench-large-log.json
	$(BIN)/python -m benchmarks.recovery --output store/bench-recovery.json
	$(BIN)/python -m benchmarks.hostile_rpcs --output store/hostile-rpcs.json
	$(BIN)/python -m benchmarks.tls --output store/bench-tls.json
	$(BIN)/python -m benchmarks.hostile_clients --output store/bench-hostile-clients.json

# The peers' clients are an extra of their own. What is not installed is left out, and said: see docs/performance.md.
bench-peers: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --editable '.[peers]'
	$(BIN)/python -m benchmarks.peers --output store/bench-peers.json --table docs/performance.md

screenshots: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m tests.docs.screenshots docs/screenshots

# With PYTEST_ARGS that choose tests, one of the two runs may find none of them: pytest's status 5.
NONE_IS_FINE = $(if $(PYTEST_ARGS),|| test $$? -eq 5)

# Tests that start replica processes wait more than they work: four of them run side by side, and beside them those that
# compute, with what they leave of the processor. These must be nice, or the others would measure who gets it; and they
# may take longer until they are taken to hang.
test: java $(INSTALLED) $(GENERATED)
	@$(MAKE) --no-print-directory --jobs=2 DEPTH='$(DEPTH)' test-processes test-computing

test-computing:
	nice -n 5 $(BIN)/python -m pytest -n 2 --dist loadgroup -m "not cluster" --timeout 300 $(DEPTH) $(PYTEST_ARGS) $(NONE_IS_FINE)

# What it says is told when it is over, or the two would tell in turns.
test-processes:
	@told="$$(mktemp)"; trap 'cat "$$told"; rm -f "$$told"' EXIT; trap 'exit 130' INT; \
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m cluster $(DEPTH) $(PYTEST_ARGS) >"$$told" 2>&1 $(NONE_IS_FINE)

test-quick: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m pytest -n 2 --depth quick --durations 5 $(PYTEST_ARGS)

test-nightly: DEPTH = --depth nightly --first-seed $(SEED) --hypothesis-seed $(SEED) --timeout 3600
test-nightly: test

lint: $(INSTALLED) $(GENERATED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/buf lint proto

fuzz: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m tests.fuzz --workers 2 --output store/fuzz.json $(FUZZ_ARGS)

# Material for MkDocs speaks of its successor at every build.
docs: $(INSTALLED) $(GENERATED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

images:
	.ci/images build

release: $(INSTALLED) $(GENERATED)
	$(BIN)/python -m release $(if $(TAG),--tag '$(TAG)') $(if $(SIGN_KEY),--sign-key '$(SIGN_KEY)')

proto: $(INSTALLED)
	$(BIN)/python hatch_build.py

clean:
	rm -rf $(VENV) replica/v1 build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	rm -f */*/native/*.so
	find replica nemesis tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(GENERATED): $(INSTALLED) hatch_build.py $(wildcard proto/replica/v1/*.proto)
	$(BIN)/python hatch_build.py

# Python compiles what it imports, which is a part of what pip would compile.
$(INSTALLED): pyproject.toml hatch_build.py $(wildcard */*/native/*.[ch]) | python
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --editable '.[dev,spark,report]'
	touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not: install it, or name it with make PYTHON=python3.11." >&2; \
		exit 1; }

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version="$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)"; \
	found="Java $$version"; test -n "$$version" || found="not there"; \
	test "$${version:-0}" -ge 17 || { \
		echo "Java 17 or newer is needed for Spark, and '$$java' is $${found}: install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME." >&2; \
		exit 1; }
