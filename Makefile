# `make demo` shows the library at work, `make test` proves it. Both need nothing but Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ROOMS := sdi reference fast proofs_checks bench experiments

# Where this is set, every process compiles torch and all of our own files again: tests start dozens of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs browser test pytest test-models quick oldest lint types bench cpu-check gpu-check mutants wheel clean

demo: $(READY)
	$(BIN)/sdi demo

test: lint
	$(MAKE) --no-print-directory -j2 types pytest

pytest: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Models from packages (transformers, x-transformers, peft, ...), small and random, in an environment of their own.
test-models: .venv-models/.ready
	OMP_NUM_THREADS=1 .venv-models/bin/python -m pytest -n 2 tests/models tests/lm

.venv-models/.ready: pyproject.toml setup.py constraints.txt
	test -x .venv-models/bin/python || $(PYTHON) -m venv .venv-models
	.venv-models/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,models]'
	touch $@

# The pages of docs/, the reference and the results as a site, in site/; a dead link stops it.
# Search works where it is served: python -m http.server -d site; docs/make/search_site.py tries it in Chromium.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# The browser that reports are tested in: the system's own, installed where it is missing; else playwright's.
browser: $(READY)
	command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; } \
	  || $(BIN)/python -m playwright install --with-deps chromium

# The loop while working: everything but the tests marked slow. It lists those that should be marked, too.
quick: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" --durations=5 --durations-min=0.5

# Every test on the oldest Python that is promised. It needs PYTHON_OLDEST, and its torch may be a build of gigabytes.
PYTHON_OLDEST ?= python3.10
oldest:
	test -x .venv-oldest/bin/python || $(PYTHON_OLDEST) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy $(ROOMS) examples

# The sketch routes and score kernels by pytest-benchmark, then whether the cost model picks the faster route.
bench: $(READY)
	$(BIN)/python -m pytest -o addopts= -p no:cacheprovider -q --benchmark-only --benchmark-columns=min,median,rounds \
	  --benchmark-sort=name tests/bench/test_micro.py
	$(BIN)/sdi-bench kernels

# On a CPU or with a compiler that nobody has tried: whether the kernels were built, their numbers, their speed. To paste.
cpu-check: $(READY)
	$(BIN)/python -c "import platform; from sdi.fast.sketching.compiled import kernels; \
	  print(platform.machine(), platform.system(), 'kernels:', kernels())"
	OMP_NUM_THREADS=2 $(BIN)/python -m pytest -q -p no:cacheprovider tests/fast/test_compiled.py tests/fast/test_other_cpus.py
	$(BIN)/sdi-bench kernels

# On a machine with a GPU (CUDA or MPS): the same numbers as the CPU's? time and memory there. To paste.
gpu-check: $(READY)
	$(BIN)/sdi-bench device

# Every small change of the modules that hold mathematics, run by the tests that call it; docs/results/mutants lists what
# survives. A run that was stopped goes on; what is known of mutants that have not changed is kept in .mutants.
mutants: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python -m sdi.bench.mutants

wheel: $(READY)
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist . > /dev/null

# Installs only when what is to be installed has changed. torch is pinned by constraints.txt.
$(READY): pyproject.toml setup.py constraints.txt fast/sketching/tensor_sketch.c fast/sketching/tensor_sketch.h
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-oldest .venv-models build dist site *.egg-info
