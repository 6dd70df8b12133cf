# make run | chat | check | test | slow | gpu | test-vllm | load | lint | typecheck | format | picture | pictures | types | traces | lessons |
#      lossy | architectures | examples | reference | vendor | models CORPUS=DIR [CHAT_MODEL=DIR]
# TORCH_INDEX: where to take torch from, such as https://download.pytorch.org/whl/cpu
# MODEL=bundled: run without the chat model, and do not fetch it
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 7860
MODEL ?=
MINUTES ?= 220
BIN := .venv/bin
# with it, each of the many processes that the tests start would compile all sources again
unexport PYTHONDONTWRITEBYTECODE
SHARE := --dist loadfile --no-loadscope-reorder
CHECKED := $(addprefix tests/,test_architecture.py test_records.py test_run_settings.py \
	test_metrics.py test_what_if.py test_trace_tables.py test_fork_points.py test_glossary.py \
	test_prompts.py theory trace_file trace_diff figures claims advisor acceptance_profile \
	decoding/test_exactness.py decoding/test_sampling.py decoding/test_forest.py \
	models/test_cache.py \
	commands/test_cli.py::test_race_reports_both_lanes_and_saves_a_trace_that_loads)

.PHONY: setup setup-dev chat browser node-tests run check test slow gpu test-vllm load lint typecheck format models lossy traces lessons picture pictures types architectures examples reference vendor

# Node checks the browser's modules. It is for developers only: where it is missing, a line says so.
NODE := $(shell command -v npm >/dev/null && echo yes)
define no-node
@echo "skipped, for there is no node here: $(1)"
endef

setup: .venv/run.stamp $(if $(filter-out smollm2,$(MODEL)),,.venv/chat.stamp)
setup-dev: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements.txt constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/pip install --quiet -r requirements.txt -c constraints.txt
	@touch $@

# The chat model: once, and not for the tests. Without it the app starts on the bundled pair.
.venv/chat.stamp: | .venv/run.stamp
	@$(BIN)/python -m specviz models --get smollm2 || \
		echo "going on without the chat model; to try again: make chat"
	@touch $@

chat: .venv/run.stamp
	$(BIN)/python -m specviz models --get smollm2

.venv/dev.stamp: requirements-dev.txt .venv/run.stamp
	$(BIN)/pip install --quiet -r requirements-dev.txt -c constraints.txt
	@touch $@

node_modules/.stamp: package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# the headless shell needs less processor time than the whole browser
browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
		{ echo "installing chromium for the browser tests"; apt-get update -qq && \
			{ apt-get install -y -qq chromium-headless-shell || apt-get install -y -qq chromium; }; }

run: setup
	HOST=$(HOST) PORT=$(PORT) $(if $(MODEL),SPECVIZ_PAIR=$(MODEL)) $(BIN)/python app.py

node-tests:
ifeq ($(NODE),yes)
	node --test tests/player/
else
	$(call no-node,the tests of the browser's modules (tests/player))
endif

# what one runs after every change, in under a minute: the rules of the design, the pure parts,
# verification on the smallest vocabularies, and one race from the command line
check: setup-dev node-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2 $(SHARE) $(CHECKED)

# A machine on which others work stands still at times: what fails is run once more, and named in
# the last lines as RERUN. What stands there hangs on time, and is to be mended.
test: setup-dev browser node-tests
	$(BIN)/python -m pytest -n 2 $(SHARE) --reruns 1 --rerun-show-tracebacks -r fER

# what takes long, or measures time and must be alone on the machine; and a search for examples that
# break a claim
slow: setup-dev browser
	$(BIN)/python -m pytest -m slow -s
	$(BIN)/python -m pytest --hypothesis-profile search $(shell grep -rl "from hypothesis import" --include="test_*.py" tests)

# what only a GPU can show, in ten minutes and in one folder: PROBE="--output second --again gpu-results"
PROBE ?= --output gpu-results
gpu: setup-dev
	$(BIN)/python -m tests.gpu_probe $(PROBE)

# against real servers of vLLM; VLLM_PYTHON: of an environment that has it
test-vllm: setup-dev
	SPECVIZ_VLLM_PYTHON=$(VLLM_PYTHON) $(BIN)/pytest -m slow tests/engines/test_vllm_validator.py tests/serving/test_vllm.py

# a class of forty on one server; LOAD="--people 20 --minutes 2" for less
load: setup-dev browser
	$(BIN)/python -m tests.load_run $(LOAD)

lint: setup-dev $(if $(NODE),node_modules/.stamp)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.prose
ifeq ($(NODE),yes)
	npm run --silent lint
else
	$(call no-node,eslint and prettier)
endif

format: setup-dev $(if $(NODE),node_modules/.stamp)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
ifeq ($(NODE),yes)
	npm run --silent format -- --log-level warn
else
	$(call no-node,prettier)
endif

typecheck: setup-dev $(if $(NODE),node_modules/.stamp)
	$(BIN)/mypy
ifeq ($(NODE),yes)
	npx tsc --project tsconfig.json
else
	$(call no-node,tsc)
endif

# CHAT_MODEL: the folder of SmolLM2-135M-Instruct, whose drafters are made then as well
models: .venv/run.stamp
	$(BIN)/python -m specviz.training --corpus "$(CORPUS)" --output assets/models --minutes $(MINUTES)
ifneq ($(CHAT_MODEL),)
	$(BIN)/python -m specviz.training.chat --corpus "$(CORPUS)" --target "$(CHAT_MODEL)" \
		--output assets/models/smollm2-135m --minutes $(MINUTES)
endif

# how far each lossy rule is from the target's distribution, for the page to say
lossy: .venv/run.stamp
	$(BIN)/python -m specviz lossless --method medusa --rule typical --temperature 0.8 \
		--samples 2500 --json > assets/lossy/medusa-typical.json

# docs/architecture.svg, drawn from the imports
picture: .venv/run.stamp
	$(BIN)/python docs/draw_architecture.py

# the pictures of README.md, from the app itself; NAMES chooses some: make pictures NAMES="race step"
pictures: setup setup-dev browser
	PYTHONPATH=. $(BIN)/python docs/draw_pictures.py $(NAMES)

# the tables of docs/measurements.md, to be pasted there; TABLES chooses some: make measurements TABLES="steps chat"
measurements: setup
	PYTHONPATH=. $(BIN)/python docs/measure_tables.py $(TABLES)

# assets/player/records.d.ts, the browser's types, from the fields of the records
types: .venv/run.stamp
	PYTHONPATH=. $(BIN)/python docs/declare_records.py

# assets/player/vendor, the browser's view library, from the npm packages that package.json pins
vendor: .venv/bin/python node_modules/.stamp
	$(BIN)/python docs/vendor_scripts.py

# docs/architectures.md: small models of all architectures of transformers, decoded with and judged
architectures: .venv/dev.stamp
	$(BIN)/python -m tests.models.walked_architectures

# what the documents' examples print
examples: .venv/run.stamp
	PYTHONPATH=. $(BIN)/python docs/print_examples.py

# docs/reference, from the commands and settings in the code
reference: .venv/run.stamp
	PYTHONPATH=. $(BIN)/python docs/write_reference.py

# what lessons show while no model is loaded, measured here; RUNS chooses some: make lessons RUNS=forwards
lessons: setup
	$(BIN)/python -m specviz.ui.course.lesson_recordings assets/lessons/recorded $(RUNS)

# the recorded runs, which the page can open with no model loaded; RUNS chooses a pair, and perhaps
# methods of it: make traces RUNS="smollm2 eagle"
traces: setup-dev
	$(BIN)/python -m specviz.experiments.run.golden_runs assets/traces $(RUNS)
