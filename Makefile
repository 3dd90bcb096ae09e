# Everything a contributor runs. Needs Python 3.11+, make and pip; the rest goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
# Versions known to work; `make CONSTRAINTS= venv` takes the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt

# One thread per process: with many, small BLAS calls are slower and timings depend on the machine's load.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help venv constraints chromium bubblewrap check format test test-ray test-vllm faults fuzz demo study bench screenshots clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/'

venv: $(STAMP) ## create .venv with the package (editable) and the development tools

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "scalerl needs Python 3.11 or newer; %s is %d.%d. Try: make PYTHON=/path/to/python3.12" % (sys.executable, v[0], v[1]))'
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing torch (pip install torch==2.13.0)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@echo "installing scalerl and its development tools (pip install -e .[dev])"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix -c ,$(CONSTRAINTS)) -e '.[dev]'
	@touch $@

constraints: venv ## write the versions of .venv into constraints.txt: after `make clean`, `make CONSTRAINTS= test`
	@head -n 2 constraints.txt > constraints.new
	@$(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable --exclude torch >> constraints.new
	@mv constraints.new constraints.txt

chromium: ## Debian's chromium for the browser tests (SCALERL_NO_BROWSER=1 leaves them out)
	@scripts/install_chromium.sh

bubblewrap: ## the sandbox for model-written code (SCALERL_NO_SANDBOX=1 leaves its tests out)
	@scripts/install_bubblewrap.sh

check: venv ## ruff (with its security rules), mypy, import-linter, and known vulnerabilities of the installed packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/audit.py

format: venv ## let ruff repair and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: check chromium bubblewrap ## the checks, then every test, the files shared between two processes
	$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --ignore tests/pipeline/cluster

test-ray: venv ## runs on a real Ray cluster of this machine, with actors killed and a node taken away
	$(BIN)/python -m pytest -q tests/pipeline/cluster

$(VLLM_STAMP): scripts/install_vllm.sh
	@rm -rf $(VLLM_VENV)
	@echo "creating $(VLLM_VENV) with vLLM for CPUs"
	@PYTHON=$(PYTHON) scripts/install_vllm.sh $(VLLM_VENV) --scalerl
	@touch $@

test-vllm: $(VLLM_STAMP) ## the engine's contract against vLLM, and vLLM under Ray, in an environment of its own (.venv-vllm)
	SCALERL_VLLM=1 $(VLLM_VENV)/bin/python -m pytest -q -m vllm --durations 8 -W "ignore:Unclosed context:ResourceWarning" \
		tests/pipeline/engines tests/pipeline/cluster/test_vllm.py tests/cli/test_train_vllm.py  # the warning is of vLLM

faults: venv bubblewrap ## everything that can break, by force: 200 runs killed, every write failed, power cuts, Ray actors killed (two hours)
	$(BIN)/python -m tests.faults --runs 200 --out faults.jsonl --summary benchmarks/results/faults.json
	SCALERL_POWER_CUTS=20 $(BIN)/python -m pytest -q -s tests/faults/test_power_cut.py
	SCALERL_LONG=1 $(BIN)/python -m pytest -q tests/pipeline/cluster/test_faults.py

fuzz: venv ## a million inputs for every reader, config loader, verifier and the watch server (hours)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python scripts/fuzz.py

demo: venv ## forecast the paper's 8B curve; then train at laptop scale, and forecast the end from the first half
	@mkdir -p demo
	$(BIN)/scalerl fit --example scalerl-8b --until 50000 --budget 100000 --plot demo/scalerl-8b.png
	@rm -rf demo/run
	SCALERL_CACHE=demo/cache $(BIN)/scalerl train --recipe scalerl --scale laptop --out demo/run
	$(BIN)/scalerl fit demo/run --until 50% --budget end --plot demo/forecast.png

study: venv ## a short leave-one-out study (two seeds, under half of the budget) and its report; docs/study_results.md has the full one
	SCALERL_CACHE=studies/cache $(BIN)/scalerl study run leave_one_out --seeds 0,1 --budget '7e11 flops' --out studies/short
	$(BIN)/scalerl study report studies/short

bench: venv ## figures beside their limits; CURVES=file.csv adds the real curves; see benchmarks/README.md for the rest
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/python benchmarks/calibration.py $(if $(CURVES),--curves $(CURVES))
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/async.py
	$(BIN)/python benchmarks/own_curves.py

screenshots: venv chromium ## pictures of the report into docs/images
	$(BIN)/python scripts/screenshots.py

clean: ## remove the environment, caches and everything built
	rm -rf $(VENV) $(VLLM_VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
