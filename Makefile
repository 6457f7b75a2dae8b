# Needs only GNU make and a Python with venv that the pins are made for. All else goes into .venv.
#   make PYTHON=python3.12 …      another interpreter
#   make TORCH=cpu …              torch's smaller build, from its own index (Linux without a GPU)
PYTHON ?= python3
TORCH ?=
$(if $(filter-out cpu,$(TORCH)),$(error TORCH=$(TORCH) is not known: there is TORCH=cpu, or without it PyPI's torch))
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

VENV := .venv
PY := $(VENV)/bin/python
TOURS := $(VENV)/.tours
MADE := $(VENV)/.made

# With more threads than free cores OpenMP spins and tiny models train many times slower.
OMP_NUM_THREADS ?= 1
OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS OMP_WAIT_POLICY

.DEFAULT_GOAL := help
.PHONY: help help-all environment run lab check test evidence notebooks data clean
.PHONY: test-all checkpoints sweep bench loops browser book group pins

# Targets described after ## are listed by `make`, those after #: by `make help-all` as well.
LIST = sed -nE 's/^([a-z-]+):.*$(1) (.*)/\1@\2/p' Makefile | awk -F@ '{ printf "  make %-12s %s\n", $$1, $$2 }'

help:
	@$(call LIST,##)
	@echo '  make help-all     the rest'

help-all:
	@$(call LIST,#[#:])

# The first Python that fits, and the first that is too new.
PYTHONS := $(shell sed -nE 's/^requires-python = ">=([0-9.]+),<([0-9.]+)"/\1 \2/p' pyproject.toml)
FITS = -c 'import sys; first, end = [tuple(map(int, v.split("."))) for v in sys.argv[1:]]; \
  sys.exit(not first <= sys.version_info[:2] < end)' $(PYTHONS)

UNFIT = echo "Python $(word 1,$(PYTHONS)) or newer is needed, but before $(word 2,$(PYTHONS)); $(PYTHON) is \
  $$($(PYTHON) -V 2>&1 | grep ^Python || echo missing). Install Python 3.12 and try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1
NO_VENV = echo "Could not make $(VENV). On Debian and Ubuntu: sudo apt install python3-venv"; exit 1
NO_TORCH = echo "The pinned torch does not come from $(TORCH_INDEX): try again later, or without \
  TORCH=$(TORCH), which takes it from PyPI (on Linux with gigabytes of CUDA)"; exit 1
# Alone, so that no other package is asked for at torch's own index.
TORCH_ALONE = $(PY) -m pip install --no-deps --retries 1 --timeout 15 --index-url $(TORCH_INDEX) \
  $$(grep '^torch==' $<) || { $(NO_TORCH); }

# The stamp is written last, so a failed installation is tried again the next time.
define INSTALL
@rm -f $@
@{ $(PY) $(FITS) && $(PY) -m pip --version; } >/dev/null 2>&1 || { \
  $(PYTHON) $(FITS) 2>/dev/null || { $(UNFIT); }; $(PYTHON) -m venv --clear $(VENV) || { $(NO_VENV); }; }
$(if $(TORCH),@$(TORCH_ALONE))
$(PY) -m pip install -r $<
$(PY) -m pip install --no-deps -e .
@touch $@
endef

$(TOURS): requirements-tours.txt
	$(INSTALL)

$(MADE): requirements.txt
	$(INSTALL)
	@touch $(TOURS)

environment: $(TOURS) ## install what the tours need; the targets for more add the rest themselves

run: $(MADE) ## run the tours, two at a time; copies and a summary go to runs/
	$(PY) tools/notebooks.py

lab: $(TOURS) ## open JupyterLab at the first notebook
	JUPYTER_CONFIG_PATH=tools/jupyter $(PY) -m jupyterlab --ServerApp.root_dir=. notebooks/00_start_here.ipynb

SPACE := $(subst ,, )
# ONLY="05 12", two digits each, takes the tests with 05_ or 12_ in their names. To import nbval
# takes three seconds.
check: $(MADE) ## in seconds: lint, and the notebooks' structure, links, terms and numbers; ONLY="05 12"
	$(PY) -m pytest -q -p no:nbval $(addprefix tests/test_,notebooks.py glossary.py tour_numbers.py) \
	  $(if $(ONLY),-k "$(subst $(SPACE), or ,$(ONLY:%=%_))",tests/test_project.py::test_local_links_lead_somewhere)
	$(PY) tools/notebooks.py --verify --collection both $(if $(ONLY),--only $(ONLY))
	$(LINT)

# No test asks the network: loaders that would try the hub get their answer at once.
test test-all: export HF_HUB_OFFLINE = 1
test test-all: export AOT_RESULTS = $(CURDIR)/runs/results
# Nor is what a test solves the reader's progress.
test test-all: export AOT_PROGRESS = off

# The notebooks of a collection by seconds, so that no long one starts when the others end. The
# numbers that they print are compared with the committed ones (tests/nbval_numbers.py).
NBVAL = $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -p nbval_numbers --nbval-lax \
  --nbval-current-env --nbval-sanitize-with=tests/nbval_sanitize.cfg --nbval-cell-timeout=600 \
  $$($(PY) tools/notebooks.py --list --collection $(1))
LINT = $(PY) -m ruff check . && $(PY) -m ruff format --check .

test: $(MADE) ## lint, unit tests, every tour's code and printed numbers: a quarter of an hour
	$(LINT)
	$(PY) -m pytest -n 2 --dist loadscope --ignore=tests/slow tests
	$(call NBVAL,tours)

test-all: $(MADE) #: the same with the slow tests and the evidence, and what is committed: three quarters of an hour
	$(LINT)
	$(PY) -m pytest -n 2 --dist loadscope tests
	rm -rf runs/results/claims # those of an older run must not be taken for this one's
	$(call NBVAL,both)
	$(PY) -m aot_helpers.teaching.ledger
	$(PY) tools/notebooks.py --verify --collection both

evidence: $(MADE) ## run the evidence: seeds, controls and audits behind every claim
	$(PY) tools/notebooks.py --collection evidence

notebooks: $(MADE) ## run what changed since the last commit in place; ONLY="05 12" runs those
	$(PY) tools/notebooks.py --in-place --collection both $(if $(ONLY),--only $(ONLY),--changed)

# Without the limit glibc keeps what is freed, and a model of 135 M parameters takes 2 GB.
data: $(MADE) ## measure again what notebooks read: WHAT=autopsy, geometry, pretrained or reviews; MODEL=gpt2
	$(if $(filter pretrained,$(WHAT)),MALLOC_MMAP_THRESHOLD_=1000000) $(PY) tools/measure.py $(or $(WHAT),--help) $(MODEL)

checkpoints: $(MADE) #: train what is shipped again, and its controls: four hours
	$(PY) tools/train.py

# STORAGE travels in the environment, so that no password is printed.
sweep: $(MADE) #: sweep a report's settings, going on where it stopped; WORKERS=2 STORAGE=postgresql://…
	$(PY) tools/sweep.py --workers $(or $(WORKERS),1)

bench: $(MADE) #: measure how soon a two-layer model learns to copy
	$(PY) tools/bench.py

loops: $(MADE) #: draw the README's moving picture and the torus's again
	$(PY) tools/loops.py

browser: $(MADE) #: try the first notebook, live views and the book in a real browser (needs Chromium)
	$(PY) -m pip install --quiet pytest-playwright==0.10.0 playwright==1.65.2
	$(PY) -m pytest --screenshot on --output runs/browser tests/browser

book: $(MADE) #: build the book from the committed notebooks, in build/book; nothing is run
	$(PY) -m pip install --quiet -r docs/book/requirements.txt
	$(PY) tools/book.py

group: $(MADE) #: make slides, handouts and leader's pages of a reading group, in build/group
	$(PY) tools/group.py

pins: $(MADE) #: make the requirements files again from pyproject.toml
	$(PY) -m pip install --quiet uv==0.13.9
	$(PY) tools/pins.py

clean: ## delete .venv, runs, the book and caches
	rm -rf $(VENV) runs build .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +
