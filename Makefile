# The commands of the project. `make` alone lists them.
# A machine needs Python 3.11 or newer, make and, on Debian, apt.

VENV   := .venv
BIN    := $(VENV)/bin
TOOLS  := .tools
WHEELS := .cache/wheels
UV     := $(TOOLS)/uv/bin/uv
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Shows what pip does, a line for each package, at once even through a pipe.
UNBUFFERED = $(shell sed -u '' </dev/null 2>/dev/null && echo -u)
SHOWN  = | sed $(UNBUFFERED) -nE 's/^Collecting ([^ ]+).*/  \1/p; s/^ *Building wheel for ([^ ]+).* started$$/  compiling \1/p; s/^Installing collected.*/  installing/p'
# Installed once per content of these files; the stamps live and die with the environment.
SERVE  := $(VENV)/.installed-for-serve
CHECK  := $(VENV)/.installed-for-check
TEST   := $(VENV)/.installed-for-test
VERIFY := $(VENV)/.installed-for-verify
FUZZED := $(VENV)/.installed-for-fuzz
# Programs come before packages: without root and sudo, the reader learns at once what to install.
PROGRAMS := $(VENV)/.programs-for

# What `make serve` serves, and where.
POLICY ?= examples/queues.yaml
LISTEN ?= 127.0.0.1:50051
# Which Python makes the environment; empty: the best of those on the path.
PYTHON ?=
# The parts of `make verify`, as tests/doors.toml lists them.
DOORS := kubernetes documents fleet packaging lifecycle gates console yunikorn transports hadoop sources load bare
# What to add to the command line of pytest in `make quick` and `make test-native`.
PYTEST_ARGS ?=
# Which fuzz targets run (empty: all), and how long each.
FUZZ ?=
FUZZ_SECONDS ?= 60
# The commit for `make bench-beside`, and its number of rounds.
REV ?=
ROUNDS ?= 5
# How long `make history` runs.
MINUTES ?= 30
# `make lock LOCK_ARGS=--upgrade` moves every pin to its newest release.
LOCK_ARGS ?=
IMAGE  ?= queuegate:0.1.0
# What builds it.
ENGINE ?= docker

# Without kept bytecode, each start of a server or command in the tests takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

SHELL := bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help serve test verify verify-touched $(DOORS:%=verify-%) quick test-native fuzz bare check docs docs-generated audit proto blocking lock bench soak history faults yunikorn bench-peers bench-beside known-revision pictures kube-tools dist image image-test sbom clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-26s %s\n", $$1, $$2 }'

serve: $(SERVE) ## serve examples/queues.yaml on 127.0.0.1:50051 (POLICY=file, LISTEN=host:port)
	@$(refuse_port_in_use)
	@exec $(BIN)/queuegate-server serve --policy $(POLICY) --listen $(LISTEN)

test: $(TEST) ## run linters, type checker, audit and the main tests (about 10 minutes on two cores)
	@$(BIN)/python -m tests.run test

verify: $(VERIFY) ## run all other tests (about an hour on two quiet cores); make verify-NAME runs one part
	@$(BIN)/python -m tests.run verify

verify-touched: $(VERIFY) ## run the parts that a change since the main branch touches (WITHIN=minutes: the shortest)
	@$(BIN)/python -m tests.run touched $(WITHIN)

$(DOORS:%=verify-%): verify-%: $(VERIFY)
	@$(BIN)/python -m tests.run verify $*

quick: $(TEST) ## run the unit tests, golden cases and contract tests only, in under a minute
	$(BIN)/pytest -n 2 --dist loadfile tests/unit tests/cases tests/contract $(PYTEST_ARGS)

bare: bare-bookworm bare-trixie bare-sid ## run `make serve` and `make test` in bare Debian systems (as root)

bare-%:
	tests/bare/run $*

test-native: $(VERIFY) ## run all tests over the native transport where it supports their settings
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder --transport auto \
		--ignore tests/resilience/isolation $(PYTEST_ARGS)

fuzz: $(FUZZED) ## fuzz each target for a minute (FUZZ=name, FUZZ_SECONDS=)
	$(BIN)/python -m tests.fuzz.run $(FUZZ) --seconds $(FUZZ_SECONDS)

check: $(CHECK) ## run linters and type checker only
	@$(BIN)/python -m tests.run check

docs: $(CHECK) ## serve the documentation on 127.0.0.1:8000 and rebuild it on changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

docs-generated: $(TEST) ## generate pages of docs/reference and the schema of the Helm values from the code
	$(BIN)/python -m docs.generate

audit: $(CHECK) ## check the pinned packages for known vulnerabilities, if the index answers
	@$(BIN)/python tests/e2e/packaging/audit.py

proto: $(CHECK) ## generate the stubs from proto/ into client/
	$(BIN)/python -m proto.generate

blocking: $(CHECK) ## generate the blocking client's methods from the asyncio client's
	$(BIN)/python client/generate_blocking.py
	$(BIN)/ruff format --quiet client/queuegate/_methods client/queuegate/gate/_methods.py

lock: $(UV) ## rewrite the hash-pinned requirement files
	$(call lock,tests/requirements.txt,--all-extras --no-emit-package python-ldap --group dev pyproject.toml)
	$(call lock,deploy/requirements.txt,--extra admission -c tests/requirements.txt pyproject.toml)
	$(call lock,deploy/image-requirements.txt,--all-extras -c tests/requirements.txt pyproject.toml)
	$(call lock,deploy/build-requirements.txt,--group build -c tests/requirements.txt)
	$(call lock,deploy/sbom-requirements.txt,--group sbom -c tests/requirements.txt)
	$(call lock,tests/fuzz/requirements.txt,--group fuzz)
	$(call lock,tests/go-requirements.txt,--group go)
	$(call lock,tests/e2e/packaging/floor-requirements.txt,--group floor --no-deps)

bench: $(TEST) ## run all benchmarks; writes bench/RESULTS.md and bench/PEERS.md (Go, npm; half an hour)
	$(BIN)/python -m bench.run
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench.plots

soak: $(TEST) ## half an hour of traffic and outages; writes bench/SOAK.md
	$(BIN)/python -m bench.soak --minutes 30

history: $(TEST) ## half an hour (MINUTES=) of calls and changes: does some order of events explain every answer?
	$(BIN)/python -m tests.resilience.history --minutes $(MINUTES)

faults: $(TEST) ## measure the effect of each fault; writes tests/resilience/FAULTS.md
	$(BIN)/pytest tests/resilience --faults-report

yunikorn: $(TEST) ## run yunikorn-core's own tests on a build that asks; writes integrations/yunikorn/RESULTS.md (Go)
	$(BIN)/python -m tests.e2e.yunikorn.suites

bench-peers: $(TEST) ## measure beside other policy servers; writes bench/PEERS.md
	$(BIN)/python -m bench.peers

bench-beside: known-revision $(TEST) ## measure beside another commit, REV=, in an environment of its own (ROUNDS=; 15 minutes)
	@revision=$$(git rev-parse --short=12 "$(REV)^{commit}") && other=.cache/beside/$$revision && \
	{ [ -d $$other ] || { rm -rf $$other.new && mkdir -p $$other.new && \
	git archive $$revision | tar -x -C $$other.new && mv $$other.new $$other; }; } && \
	$(MAKE) --no-print-directory -C $$other PYTHON=$(abspath $(BIN)/python) $(CHECK) && \
	$(BIN)/python -m bench.versions $$other/$(BIN)/python --rounds $(ROUNDS)

# Before anything is installed. The targets of older Makefiles have other names.
known-revision:
	@$(if $(REV),,$(error name a commit: make bench-beside REV=main~10))
	@git cat-file -e '$(REV)^{commit}' 2>/dev/null || \
		{ echo "REV=$(REV) names no commit of this repository: git log --oneline lists them" >&2; exit 2; }
	@git show '$(REV):Makefile' | grep -q '^CHECK ' || \
		{ echo "REV=$(REV) is too old: its Makefile cannot install an environment for this comparison" >&2; exit 2; }
	@[ "$(ROUNDS)" -ge 1 ] 2>/dev/null || { echo "ROUNDS=$(ROUNDS) must be a number from 1" >&2; exit 2; }

pictures: $(VERIFY) ## draw docs/pictures: benchmark plots, terminal sessions, leases, the console
	$(BIN)/python -m bench.plots
	$(BIN)/python -m tests.e2e.documentation.terminal_pictures
	$(BIN)/python -m tests.e2e.documentation.lease_picture
	$(BIN)/python -m tests.e2e.documentation.console_pictures
	@# Needs what `make kube-tools` builds.
	$(BIN)/python -m tests.e2e.documentation.apply_picture

kube-tools: ## build what tests/e2e/kube run: etcd, Kubernetes' control plane, kubectl, Kueue (Go, about 20 minutes)
	cd tests/e2e/kube/tools && go build -trimpath -o $(CURDIR)/$(TOOLS)/kube/ \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3" \
		./etcd ./kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kubectl
	cd tests/e2e/kube/tools/kueue && go build -trimpath -o $(CURDIR)/$(TOOLS)/kube/ -ldflags "-s -w" \
		sigs.k8s.io/kueue/cmd/kueue
	@# The definitions and webhooks that Kueue's manifests install.
	rm -rf $(TOOLS)/kube/kueue-manifests
	cp -r --no-preserve=mode \
		"$$(cd tests/e2e/kube/tools/kueue && go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config/components" \
		$(TOOLS)/kube/kueue-manifests

dist: $(CHECK) ## build wheel and sdist, reproducibly, and the SBOM of the wheel, into dist/
	rm -rf dist
	$(BIN)/hatchling build --directory dist
	@# What pip would install, without installing it.
	$(call report,dist/dependencies.json,--require-hashes -r deploy/requirements.txt)
	$(call report,dist/own.json,dist/*.whl)
	$(BIN)/python deploy/sbom.py dist/dependencies.json dist/own.json > dist/wheel.cdx.json
	rm dist/dependencies.json dist/own.json

image: ## build the container image, with its SBOM in dist/ (Docker, or ENGINE=podman)
	$(ENGINE) build --tag $(IMAGE) .
	@mkdir -p dist
	$(ENGINE) run --rm --network none --entrypoint cat $(IMAGE) /opt/queuegate/sbom.cdx.json \
		> dist/image.cdx.json

image-test: $(VERIFY) ## build the image without a Docker engine, run it, and print its size (as root)
	$(BIN)/pytest -s tests/e2e/packaging/test_image.py

sbom: dist image ## write the SBOMs of the wheel and of the image into dist/ (Docker)

clean: ## remove caches and built files (not .venv, not .tools)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find client server tests bench proto -name __pycache__ -type d -prune -exec rm -rf {} +

$(SERVE): deploy/requirements.txt deploy/build-requirements.txt pyproject.toml | $(BIN)/pip
	@echo "Installing what the server needs into $(VENV) ..."
	@$(call install,-r deploy/requirements.txt -r deploy/build-requirements.txt)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# A superset of the above, in the same versions, but no driver for LDAP: it has no wheels.
$(CHECK): tests/requirements.txt pyproject.toml | $(BIN)/pip
	@echo "Installing what the checks need into $(VENV) ..."
	@$(call install,-r tests/requirements.txt)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(PROGRAMS)-test $(PROGRAMS)-verify: $(PROGRAMS)-%: tests/support/install-programs | $(BIN)/pip
	@tests/support/install-programs $*
	@touch $@

$(TEST): $(PROGRAMS)-test $(CHECK) deploy/image-requirements.txt
	@echo "Installing what the tests need into $(VENV) ..."
	@$(call install,--no-build-isolation -r deploy/image-requirements.txt)
	@touch $@

# The packaging tests install from the downloaded wheels and so need no network.
$(VERIFY): $(PROGRAMS)-verify $(TEST) deploy/requirements.txt deploy/build-requirements.txt deploy/sbom-requirements.txt \
		tests/e2e/packaging/floor-requirements.txt
	@$(PIP) download --quiet --require-hashes --only-binary :all: --dest $(WHEELS) \
		-r deploy/requirements.txt -r deploy/build-requirements.txt \
		-r deploy/sbom-requirements.txt
	@$(PIP) download --quiet --require-hashes --only-binary :all: --no-deps --dest $(WHEELS) \
		-r tests/e2e/packaging/floor-requirements.txt
	@touch $@

# Not among the packages of the tests: its wheels are for Linux on x86-64 and Python 3.11 to 3.13.
$(FUZZED): tests/fuzz/requirements.txt $(TEST)
	@$(call install,--only-binary :all: -r tests/fuzz/requirements.txt)
	@touch $@

# pip comes last into a new environment: one without it was interrupted and is made again.
$(BIN)/pip:
	@python=$$($(find_python)) || { echo "$(python_missing)" >&2; exit 2; }; \
	$(ensure_venv); \
	echo "Making $(VENV) with $$("$$python" --version) ..."; \
	rm -rf $(VENV) && "$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

$(UV): | $(BIN)/pip
	@$(BIN)/python -m venv $(TOOLS)/uv
	@$(TOOLS)/uv/bin/python -m pip --disable-pip-version-check --quiet install uv==0.13.8

lock = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(LOCK_ARGS) $(2) --output-file $(1)

# pip prints nothing while it installs what it has downloaded.
define install
installed() { ls -d $(VENV)/lib/python*/site-packages/*.dist-info 2>/dev/null | wc -l; }; \
{ before=$$(installed); \
while sleep 3 && kill -0 $$$$ 2>/dev/null; do \
	now=$$(installed); \
	[ "$$now" = "$$before" ] || echo "  $$now packages are installed"; \
	before=$$now; \
done; } & \
counting=$$!; \
$(PIP) install --require-hashes $(1) $(SHOWN); \
status=$$?; \
kill $$counting; \
exit $$status
endef

report = $(PIP) install --quiet --dry-run --ignore-installed --no-deps --report $(1) $(2)

# The server says the same in the words of its own options.
define refuse_port_in_use
address="$(LISTEN)"; \
case "$$address" in unix:*) ;; *:*) \
	if (exec 3<>"/dev/tcp/$${address%:*}/$${address##*:}") 2>/dev/null; then \
		echo "Another process listens on $$address. End it, or choose another port: make serve LISTEN=127.0.0.1:50052" >&2; \
		exit 2; \
	fi;; \
esac
endef

# 3.11 to 3.14 first: all pinned packages have wheels for them.
define find_python
for newest in 14 99; do \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
		"$$candidate" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $$newest))" \
			2>/dev/null && { echo "$$candidate"; exit 0; }; \
	done; \
done; exit 1
endef

python_missing = queuegate needs Python 3.11 or newer; none of '$(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)' is. \
	Install one, or name it: make PYTHON=/path/to/python3.12 ...

# Debian ships the venv module without what it needs.
define ensure_venv
if ! "$$python" -c "import ensurepip, venv" 2>/dev/null; then \
	package=$$("$$python" -c "import sys; print('python%d.%d-venv' % sys.version_info[:2])"); \
	as_root=; \
	if [ "$$(id -u)" != 0 ]; then as_root="sudo"; fi; \
	if command -v apt-get >/dev/null && { [ -z "$$as_root" ] || sudo -n true 2>/dev/null; }; then \
		echo "Installing $$package ..."; \
		$${as_root:+sudo -n} apt-get update -qq && \
		$${as_root:+sudo -n} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package" || exit 2; \
	else \
		echo "$$python cannot make virtual environments. Run this, then try again:" >&2; \
		echo "    $${as_root:+sudo }apt-get install $$package" >&2; \
		exit 2; \
	fi; \
fi
endef
