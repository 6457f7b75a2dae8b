# Needs only GNU make and Python 3.10 or newer with venv. Everything else goes into .venv.
#   make PYTHON=python3.12 …                          another interpreter
#   make REQUIREMENTS=binder/requirements.txt …       torch's smaller CPU build (Linux)
PYTHON ?= python3
REQUIREMENTS ?= requirements.txt

VENV := .venv
PY := $(VENV)/bin/python
MADE := $(VENV)/.made

# With more threads than free cores OpenMP spins and tiny models train many times slower.
OMP_NUM_THREADS ?= 1
OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS OMP_WAIT_POLICY

.DEFAULT_GOAL := help
.PHONY: help run evidence test lab notebooks autopsy geometry pretrained sweep bench checkpoints browser pins clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1@/p' Makefile | awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'

# The stamp is written last, so a failed installation is tried again the next time.
$(MADE): $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Python 3.10 or newer is needed, but \`$(PYTHON)\` is missing or older: try make PYTHON=python3.12"; exit 1; }
	@rm -f $(MADE)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "Could not make $(VENV). On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	$(PY) -m pip install -r $(REQUIREMENTS)
	$(PY) -m pip install --no-deps -e .
	@touch $(MADE)

run: $(MADE) ## run the tour, two notebooks at a time; copies and a summary go to runs/
	$(PY) tools/run_notebooks.py

evidence: $(MADE) ## run the evidence: seeds, controls and audits behind every claim
	$(PY) tools/run_notebooks.py --floor evidence

# No test asks the network: loaders that would try the hub get their answer at once.
test: export HF_HUB_OFFLINE = 1
test: export AOT_RESULTS = $(CURDIR)/runs/results
test: $(MADE) ## lint, unit tests, every notebook, committed state
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -n 2 tests
	rm -rf $(AOT_RESULTS)/claims
	$(PY) -m pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env \
	  --nbval-sanitize-with=tests/nbval_sanitize.cfg --nbval-cell-timeout=300 notebooks/
	$(PY) -m aot_helpers.teaching.ledger
	$(PY) tools/run_notebooks.py --verify --floor both

lab: $(MADE) ## open JupyterLab at the first notebook
	$(PY) -m jupyterlab notebooks/00_start_here.ipynb

notebooks: $(MADE) ## run both floors in place and refresh the README table
	$(PY) tools/run_notebooks.py --in-place --floor both

# STORAGE travels in the environment, so that no password is printed.
autopsy: $(MADE) ## train a report's faulty and mended set-ups, going on where it stopped
	$(PY) tools/autopsy.py

geometry: $(MADE) ## measure and map the queries and keys of every head of some models
	$(PY) tools/geometry.py

# Without the limit glibc keeps what is freed, and a model of 135 M parameters takes 2 GB.
pretrained: export MALLOC_MMAP_THRESHOLD_ = 1000000
pretrained: $(MADE) ## read pretrained models for notebooks 00, 07, 20 to 22, as many as are within reach
	$(PY) tools/pretrained.py

sweep: $(MADE) ## sweep a report's settings, going on where it stopped; WORKERS=2 STORAGE=postgresql://…
	$(PY) tools/sweep.py --workers $(or $(WORKERS),1)

bench: $(MADE) ## measure training, skip-trigram tables and live figures
	$(PY) tools/bench.py

checkpoints: $(MADE) ## train the shipped checkpoints again
	$(PY) tools/train_checkpoints.py
	$(PY) tools/train_torus.py
	$(PY) tools/train_gpt2.py

browser: $(MADE) ## try the first notebook in a real browser (needs Chromium)
	$(PY) -m pip install --quiet playwright==1.65.2
	$(PY) tools/browser.py

pins: $(MADE) ## make the requirements files again from pyproject.toml
	$(PY) -m pip install --quiet uv==0.13.9
	$(PY) tools/pins.py

clean: ## delete .venv, runs and caches
	rm -rf $(VENV) runs .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +
