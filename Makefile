# make demo: set up, and run the synthetic experiment: two minutes after the set-up
# make test: set up, check style, types and architecture, and run every test
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
SYSTEM := $(if $(CI),.venv/system)

.PHONY: demo test docs tables results methods endless bench reliability clean

demo: $(READY)
	$(BIN)/taskfree reproduce synthetic --seeds 4 --sweep-seeds 2 --out demo

test: $(READY) $(SYSTEM)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto --dist loadscope

# The documentation as a site: site/index.html
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The tables in README and docs, from the committed results, and the picture of the imports
tables: $(READY)
	$(BIN)/python tools/write_tables.py
	$(BIN)/python tools/import_graph.py

# The committed results: settings were chosen on seeds 100 to 111; the figures are of 0 to 19
results: $(READY)
	$(BIN)/taskfree reproduce synthetic --first-seed 100 --seeds 12 --sweep-seeds 12 --out results/synthetic-tuning
	$(BIN)/taskfree reproduce synthetic

# Speed as ratios against plain loops and peers in one run: about half an hour, machine idle
bench: .venv-bench/ready
	.venv-bench/bin/python benchmarks/speed.py
	.venv-bench/bin/python benchmarks/ranks.py

# The default against the methods of other libraries, by their own code: many hours. What is in
# results/methods/results.json already is not repeated.
methods: .venv-bench/ready
	.venv-bench/bin/taskfree reproduce methods --methods taskfree replay paper online joint 'Avalanche ER' 'Avalanche MIR' 'Avalanche ER-ACE' 'Avalanche DER++' 'Avalanche CoPE' 'Avalanche RAR' 'Avalanche GSS' 'Avalanche A-GEM' 'Avalanche EWC' 'Avalanche MAS'

# 1,000,000 time steps: memory and time per step stay flat
endless: $(READY)
	$(BIN)/python reliability/soak.py

# Kills, failing disks, damaged files, poisoned streams, mutated code: about three hours
reliability: $(READY) .venv-mutants/ready
	$(BIN)/python reliability/run.py

# The environment of the peers. Avalanche pins an older torch, so it comes without dependencies.
.venv-bench/ready: pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' --requirement benchmarks/peers.txt
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps avalanche-lib torchvision
	touch $@

# mutmut does not support pytest 9 yet, which the tests otherwise use.
.venv-mutants/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	.venv-mutants/bin/pip install --quiet --disable-pip-version-check mutmut==3.8.0 pytest==8.4.2
	touch $@

# Avalanche is installed apart: its torchvision, which is incomplete here, breaks torchmetrics.
$(READY): pyproject.toml constraints.txt tests/adapters/avalanche.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps --upgrade --target .venv/avalanche --requirement tests/adapters/avalanche.txt
	touch $@

# In CI only: a browser for the tests of pages, and images for those of an example. Where these
# cannot be installed, those tests skip and say why.
.venv/system: $(READY)
	command -v chromium || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium dataset-fashion-mnist; } > .venv/system.log 2>&1 || cat .venv/system.log
	touch $@

clean:
	rm -rf .venv .venv-bench .venv-mutants demo site
