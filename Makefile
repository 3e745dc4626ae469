# The whole house from a bare checkout: each target makes .venv and installs the project when that is due.

PYTHON ?= $(firstword $(foreach python,python3.11 python3.12 python3.13 python3,\
	$(shell $(python) -c 'import sys, ensurepip; sys.version_info >= (3, 11) and print("$(python)")' 2>/dev/null)))
PINS ?= --constraint constraints.txt
DURATION ?= 20
WORKERS ?= $(shell expr $$(nproc) + 1)  # tests that wait for processes leave a core idle
BIN := .venv/bin
RECORDINGS = $(shell sed -n 's/.*[{ ]file = "\(.*\.mcap\)".*/\1/p' launch/*.toml)  # what the launch files write
INSTALLED := .venv/.installed# what users have
DOCS := .venv/.docs# what builds the documentation, too
DEVELOPMENT := .venv/.development# what the tests need, too: other engines, 2 GB

unexport PYTHONDONTWRITEBYTECODE  # of the shell: without bytecode files each process compiles all modules anew

.PHONY: demo picture docs test soak fresh check fuzz aarch64 bench bench-viewer install dist clean

demo: $(INSTALLED)                # the gibbon on its cable for DURATION seconds, then its picture
	$(BIN)/armswing launch launch/gibbon_cable.toml --duration $(DURATION)
	$(BIN)/armswing view gibbon_cable.mcap --png demo.png

picture: $(INSTALLED)             # the README's pictures, drawn anew
	$(BIN)/armswing launch launch/gibbon_cable.toml --duration 18.6 --set sim.mode=lockstep
	$(BIN)/armswing view gibbon_cable.mcap --png docs/gibbon.png
	$(BIN)/armswing launch launch/rotary_pendulum.toml --duration $(DURATION)
	$(BIN)/armswing view demo.mcap --png docs/rotary_pendulum.png
	$(BIN)/armswing launch launch/charmie_pick.toml --set sim.mode=lockstep
	$(BIN)/armswing view charmie_pick.mcap --png docs/charmie.png

docs: $(DOCS)                     # the documentation as HTML: build/docs/index.html; a warning is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet --builder html docs build/docs

# Where Qt's system libraries are missing, the plugin that drives Qt must stay out and the window's tests are skipped.
WITHOUT_QT = $$($(BIN)/python -c 'import PyQt5.QtWidgets' 2>/dev/null || echo '-p no:pytest-qt')

test: $(DEVELOPMENT)              # every test, WORKERS files at a time, long files first
	$(BIN)/pytest $(WITHOUT_QT) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rfEs

soak: $(DEVELOPMENT)              # the full counts of the tests that run a sample in `make test`
	$(BIN)/pytest $(WITHOUT_QT) -m soak --timeout=3600 -o faulthandler_timeout=4000 -rs

fresh:                            # make demo and make test in a bare Debian of mmdebstrap's, as a user and as root
	tests/fresh/run

check: $(DEVELOPMENT)             # formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(DEVELOPMENT)              # a million mutated frames at every kind of socket, SEED=1
	$(BIN)/python tests/fuzz/sockets.py --mutations 1000000 --seed $(or $(SEED),1)

aarch64: $(DEVELOPMENT)           # armswing on the robot's processor, emulated: fetches 200 MB into build/ once
	$(BIN)/pytest -v -p no:pytest-qt tests/aarch64/robots_computer.py
	$(BIN)/python -m tests.aarch64.sodium
	$(BIN)/pytest -v -p no:pytest-qt -m soak -k aarch64 tests/nodes/launched/test_c_client_keys.py tests/network/test_c_client_keys.py

bench: $(DEVELOPMENT)             # ours beside the peers that are installed; writes bench.json
	$(BIN)/python tests/benchmarks/run.py --json bench.json

bench-viewer: $(DEVELOPMENT)      # all benchmarks of the viewer, an hour on a quiet machine; writes bench_viewer.json
	$(BIN)/python tests/benchmarks/run.py --viewer --json bench_viewer.json

install: $(INSTALLED)

dist: $(INSTALLED)                # the wheel and the source distribution, in dist/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PINS) hatchling
	rm -rf dist
	$(BIN)/python -m hatchling build

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PINS) --editable

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "armswing needs Python 3.11 or later with venv: apt-get install python3-venv"; exit 2; }
	@echo "1 of 3: creating .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "2 of 3: installing armswing and the libraries it needs, a few minutes (1.4 GB in .venv)"
	@$(PIP) '.[all]'
	@echo "3 of 3: compiling the stepping loops, half a minute; the first launches then only load them"
	@$(BIN)/python -P -m nodes.framework.launching.installation
	@touch $@

$(DOCS): $(INSTALLED)
	@echo "installing what builds the documentation"
	@$(PIP) '.[all,docs]'
	@touch $@

$(DEVELOPMENT): $(INSTALLED)
	@echo "installing what the tests need: other engines to compare with, a few minutes (2 GB more in .venv)"
	@$(PIP) '.[all,docs,dev]'
	@touch $(DOCS) $@

clean:                            # everything that make and the tools have made
	rm -rf .venv build dist docs/_generated docs/gallery docs/sg_execution_times.rst .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench.json bench_viewer.json
	rm -f demo.png $(RECORDINGS) $(RECORDINGS:.mcap=.before.mcap) $(RECORDINGS:.mcap=.log) $(RECORDINGS:.mcap=.log.*) *.sidecar.json .*.mcap.part
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
