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
.PHONY: help help-all run lab check test evidence notebooks data clean
.PHONY: test-all checkpoints sweep bench loops browser book pins

# Targets described after ## are listed by `make`, those after #: by `make help-all` as well.
LIST = sed -nE 's/^([a-z-]+):.*$(1) (.*)/\1@\2/p' Makefile | awk -F@ '{ printf "  make %-12s %s\n", $$1, $$2 }'

help:
	@$(call LIST,##)
	@echo '  make help-all     the rest'

help-all:
	@$(call LIST,#[#:])

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

run: $(MADE) ## run the tours, two at a time; copies and a summary go to runs/
	$(PY) tools/notebooks.py

lab: $(MADE) ## open JupyterLab at the first notebook
	$(PY) -m jupyterlab --ServerApp.root_dir=. notebooks/00_start_here.ipynb

check: $(MADE) ## in seconds: lint, and the notebooks' structure, links, terms and numbers; ONLY="05 12"
	$(PY) tools/check.py $(ONLY)

# No test asks the network: loaders that would try the hub get their answer at once.
test test-all: export HF_HUB_OFFLINE = 1
test test-all: export AOT_RESULTS = $(CURDIR)/runs/results
# Nor is what a test solves the reader's progress.
test test-all: export AOT_PROGRESS = off

# The notebooks of a floor by seconds, so that no long one starts when the others end. A tour's
# printed numbers are compared with the committed ones (tests/nbval_numbers.py).
NBVAL = $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -p nbval_numbers --nbval-lax \
  --nbval-current-env --nbval-sanitize-with=tests/nbval_sanitize.cfg --nbval-cell-timeout=300 \
  $$($(PY) tools/notebooks.py --list --floor $(1))
LINT = $(PY) -m ruff check . && $(PY) -m ruff format --check .

test: $(MADE) ## lint, unit tests, every tour's code and printed numbers: a quarter of an hour
	$(LINT)
	$(PY) -m pytest -n 2 --dist loadscope --ignore=tests/slow tests
	$(call NBVAL,tour)

test-all: $(MADE) #: the same with the slow tests and the evidence, and what is committed: three quarters of an hour
	$(LINT)
	$(PY) -m pytest -n 2 --dist loadscope tests
	rm -rf runs/results/claims # those of an older run must not be taken for this one's
	$(call NBVAL,both)
	$(PY) -m aot_helpers.teaching.ledger
	$(PY) tools/notebooks.py --verify --floor both

evidence: $(MADE) ## run the evidence: seeds, controls and audits behind every claim
	$(PY) tools/notebooks.py --floor evidence

notebooks: $(MADE) ## run what changed since the last commit in place; ONLY="05 12" runs those
	$(PY) tools/notebooks.py --in-place --floor both $(if $(ONLY),--only $(ONLY),--changed)

# Without the limit glibc keeps what is freed, and a model of 135 M parameters takes 2 GB.
data: $(MADE) ## measure again what notebooks read: WHAT=autopsy, geometry or pretrained; MODEL=gpt2
	$(if $(filter pretrained,$(WHAT)),MALLOC_MMAP_THRESHOLD_=1000000) $(PY) tools/measure.py $(or $(WHAT),--help) $(MODEL)

checkpoints: $(MADE) #: train what is shipped again, and its controls: four hours
	$(PY) tools/train.py

# STORAGE travels in the environment, so that no password is printed.
sweep: $(MADE) #: sweep a report's settings, going on where it stopped; WORKERS=2 STORAGE=postgresql://…
	$(PY) tools/sweep.py --workers $(or $(WORKERS),1)

bench: $(MADE) #: measure training, the phase change, a busy neighbor and skip-trigram tables
	$(PY) tools/bench.py

loops: $(MADE) #: draw the README's moving picture and the torus's again
	$(PY) tools/loops.py

browser: $(MADE) #: try the first notebook, live views and the book in a real browser (needs Chromium)
	$(PY) -m pip install --quiet playwright==1.65.2
	$(PY) tools/browser.py
	$(PY) tools/book_browser.py

book: $(MADE) #: build the book from the committed notebooks, in build/book; nothing is run
	$(PY) -m pip install --quiet -r docs/book/requirements.txt
	$(PY) tools/book.py

pins: $(MADE) #: make the requirements files again from pyproject.toml
	$(PY) -m pip install --quiet uv==0.13.9
	$(PY) tools/pins.py

clean: ## delete .venv, runs, the book and caches
	rm -rf $(VENV) runs build .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +
