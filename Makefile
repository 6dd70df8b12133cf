# make run | test | slow | lint | typecheck | models CORPUS=DIR
# TORCH_INDEX: where to take torch from, such as https://download.pytorch.org/whl/cpu
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 7860
MINUTES ?= 220
BIN := .venv/bin

.PHONY: setup setup-dev browser run test slow lint typecheck format models lossy traces

setup: .venv/run.stamp
setup-dev: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements.txt constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/pip install --quiet -r requirements.txt -c constraints.txt
	@touch $@

.venv/dev.stamp: requirements-dev.txt .venv/run.stamp
	$(BIN)/pip install --quiet -r requirements-dev.txt -c constraints.txt
	@touch $@

browser:
	@command -v chromium >/dev/null || \
		{ echo "installing chromium for the browser tests"; apt-get update -qq && apt-get install -y -qq chromium; }

run: setup
	HOST=$(HOST) PORT=$(PORT) $(BIN)/python app.py

test: setup-dev browser
	$(BIN)/python -m pytest -n 2 --dist loadfile

# what takes long, or measures time and must be alone on the machine
slow: setup-dev browser
	$(BIN)/python -m pytest -m slow -s

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

typecheck: setup-dev
	$(BIN)/mypy

models: setup
	$(BIN)/python -m specviz.training --corpus "$(CORPUS)" --output assets/models --minutes $(MINUTES)

# how far each lossy rule is from the target's distribution, for the page to say
lossy: setup
	$(BIN)/python -m specviz lossless --method medusa --rule typical --temperature 0.8 \
		--samples 2500 --json > assets/lossy/medusa-typical.json

# one recorded run of each method, which the page can open with no model loaded
traces: setup
	$(BIN)/python -m specviz.experiments.run.golden_runs assets/traces
