# make demo · make test · make test-all · make bench · make check · make wheel: the same words on a laptop and in CI.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS ?= torch,chakra,place,search,mcp,demo,bench,test,check,wasm,serve
WASM := src/paceline/wasm/engine.wasm
PAGE := src/paceline/report/page/template.html
NODE := $(shell command -v npm)

.PHONY: demo reports test test-slow test-all bench check clean wasm page wheel wheel-universal

$(READY): pyproject.toml constraints.txt CMakeLists.txt $(wildcard native/*.cpp native/*.hpp native/bind/*.cpp native/bind/*.hpp)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	touch $(READY)

# The engine as WebAssembly, for the page and for the wheel without a compiler.
wasm: $(WASM)

$(WASM): $(READY) native/wasm/build.py $(wildcard native/*.cpp native/*.hpp native/wasm/*.cpp native/wasm/*.hpp)
	$(BIN)/python native/wasm/build.py $@

# The page of `paceline report`: with the Node at hand, else with the one that PyPI brings.
page: $(PAGE)

$(PAGE): $(WASM) $(wildcard web/*.json web/*.js web/*.html web/src/*.* web/src/*/*.*)
	$(BIN)/python web/build.py

# For machines without a native core (Mac, Windows): no compiled code but the module, for wasmtime.
wheel-universal: $(WASM) $(PAGE)
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -C wheel.cmake=false -w dist .

demo: $(READY) $(if $(NODE),$(WASM) $(PAGE))
	$(BIN)/python examples/demo.py

# The pages of the recordings that come with Paceline, and of TRACES where some are named.
reports: $(PAGE)
	$(BIN)/python examples/reports.py $(TRACES)

test: $(READY) $(WASM) $(if $(NODE),$(PAGE))
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: $(READY) $(WASM) $(if $(NODE),$(PAGE))
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

test-all: test test-slow

# The fuzzer is guided by coverage where atheris can be installed, else it mutates at random.
bench: $(READY)
	-$(BIN)/python -m pip install -q --disable-pip-version-check 'atheris>=2.3'
	$(BIN)/python -m benchmarks

check: $(READY)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

# With the compiled engine, for the Python that makes it and for manylinux.
wheel: $(READY)
	.ci/wheel $(BIN)/python

clean:
	rm -rf $(VENV) build dist $(WASM) $(PAGE)
