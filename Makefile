# What a contributor runs. `make test` is the whole truth: it needs only the Go
# toolchain and, on Debian, installs the rest by itself.

SHELL := /bin/bash
export PATH := $(PATH):/usr/local/go/bin
# What is compiled is then the same in every checkout, and a fresh one finds it in the cache.
export GOFLAGS := $(GOFLAGS) -trimpath

FUZZTIME ?= 30s

.PHONY: test lint setup build release release-key release-sign release-verify vuln bench bench-postgres bench-scale tails flood timing signin faults seeds simulate simulate-nightly flows activity fuzz fuzz-nightly mutants screenshots dev clean

# A compiler, and what looks at code, spends a third of its time on memory that is free again soon.
test lint: export GOGC := 400

# Everything, browser tests included, with the race detector but where scripts/test.sh says;
# fails when a test was skipped. What is linted and what is tested is compiled once, before
# both; then lint runs beside the tests, many of which wait for what they killed.
# What computes for one goroutine at a time, and is nobody's here, is built without the
# detector, in what the tests build too: SQLite, which is C that was translated (the driver
# around it is not left out), the checker of histories, and the hashes of passwords. Nothing carries what a debugger
# would read, which takes a fifth of the time to compile and to link.
test: export GOFLAGS := $(GOFLAGS) -ldflags=-w -gcflags=all=-dwarf=false -gcflags=github.com/ncruces/go-sqlite3-wasm/...=-race=false -gcflags=github.com/anishathalye/porcupine=-race=false -gcflags=golang.org/x/crypto/argon2=-race=false
test: setup
	@mkdir -p bin; for module in . bench; do (cd $$module && go list -race -export -deps -test ./... >/dev/null 2>&1); done; \
	$(MAKE) --no-print-directory lint >bin/lint.log 2>&1 & lint=$$!; \
	bash scripts/test.sh -count=1 -timeout 40m; status=$$?; \
	wait $$lint || { cat bin/lint.log >&2; echo "make lint failed" >&2; exit 1; }; exit $$status

# It asks of what the tests with the race detector are built from, so that make test compiles it once,
# and of what is left out there.
lint:
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; \
	fi
	go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	check() { go vet "$$@" && $(CURDIR)/bin/staticcheck -checks all "$$@"; }; \
	for module in . bench; do (cd $$module && export GOFLAGS="$$GOFLAGS -race" && check ./...) || exit 1; done; \
	check $$(grep -rl --include='*.go' '^//go:build !race' . | xargs -n1 dirname | sort -u) && cd e2e/chart && check ./...
	cd scripts/lint && go build -o $(CURDIR)/bin/lint .
	bin/lint

setup:
	@command -v go >/dev/null || { echo "Go is missing: https://go.dev/dl/" >&2; exit 1; }
	@bash scripts/setup-debian.sh

build:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/grantkeeper ./cmd/grantkeeper-connect

# A release of the commit that is checked out, in bin/release: binaries, packages, image,
# chart, bill of materials, provenance, check sums. make release VERSION=0.1.0
# docs/supply-chain.md says how, and what it takes to be the same bytes elsewhere.
release:
	@VERSION=$(VERSION) bash scripts/release.sh bin/release

# The releaser's key, once; it stays with them. Its public line goes into SIGNERS.
KEY ?= $(HOME)/.ssh/grantkeeper-release
SIGNERS ?= contrib/release.signers

release-key:
	ssh-keygen -t ed25519 -C release@grantkeeper -f "$(KEY)"
	@echo "The line of $(SIGNERS):"
	@echo "release@grantkeeper namespaces=\"grantkeeper-release\" $$(cut -d' ' -f1,2 "$(KEY).pub")"

release-sign:
	ssh-keygen -Y sign -f "$(KEY)" -n grantkeeper-release bin/release/SHA256SUMS

# As a stranger checks it, and built anew from a clone. SIGNED=--unsigned before it is signed.
SIGNED ?= --signers $(SIGNERS)

release-verify:
	bash scripts/release-verify.sh $(SIGNED) --source . bin/release

# What the Go vulnerability database knows against what is built here. Needs the network.
vuln:
	@bash scripts/vuln.sh

# bench/ is a module of its own; it runs here, so that the files that ARGS names are here.
BENCH = go build -C bench -o $(CURDIR)/bin/ . && bin/bench

bench:
	$(BENCH) $(ARGS)

# The same on PostgreSQL, beside pgbench on the same server.
bench-postgres:
	$(BENCH) -postgres -scenarios verify,verify-bounded,refresh,exchange,revoke,register $(ARGS)

# What 10,000, a million and ten million approvals give and cost on PostgreSQL:
# an hour, and 30 GB of the folder for temporary files. SIZES=10000,100000
SIZES ?= 10000,1000000,10000000
bench-scale:
	$(BENCH) -scale $(SIZES) $(ARGS)

# How long refreshes and calls take while members are imported, a backup is made, and so on.
tails:
	$(BENCH) -tails $(ARGS)

# What a million attempts to connect by strangers leave in memory and in the database.
flood:
	$(BENCH) -flood 1000000 $(ARGS)

# What the duration of refusals could tell: wrong tokens, failed sign-ins.
timing:
	$(BENCH) -timing $(ARGS)

# What signing in at an OpenID provider on this machine costs.
signin:
	go build -C bench -o $(CURDIR)/bin/ ./signin
	bin/signin $(ARGS)

# Servers under load that are killed, paused and cut off, and whether their answers
# were right: make faults ARGS="-for 1h -seed 7", or one test: RUN=TestF11_Nodes
RUN ?= .

faults: setup
	go test ./e2e/faults -run '$(RUN)' -count=1 -v -timeout 0 -args $(ARGS)

# Whole flows in any order, against a model of the contract: make flows ARGS="-for 10m -seed 7"
flows: setup
	go test ./e2e/flows -run '^TestWalks$$' -count=1 -v -timeout 0 -args $(ARGS)

# The embedded engine over a disk, a clock and an order that each seed decides, on every
# processor: make simulate SEEDS=100000. And several nodes over a network that it decides,
# before a real PostgreSQL: make seeds SEEDS=10000. What is wrong is printed with the command
# that replays it.
SEEDS ?= 1000

simulate: SEEDS = 100000
simulate: TEST = TestSeeds
simulate: COUNT = -seeds
seeds: TEST = TestNodeSeeds
seeds: COUNT = -node-seeds
seeds: setup
simulate seeds:
	@go test -c -o bin/simulate.test ./store/simulate || exit 1; n=$$(getconf _NPROCESSORS_ONLN); jobs=(); status=0; \
	for i in $$(seq 0 $$((n - 1))); do \
		(set -o pipefail; GOMAXPROCS=1 bin/simulate.test -test.run '^$(TEST)$$' -test.timeout 0 -test.v $(COUNT) $$(($(SEEDS) / n)) \
			-first $$(($(FIRST) + i)) -every $$n | grep -vE '^ *(=== |--- PASS)') & jobs+=($$!); \
	done; \
	for job in $${jobs[@]}; do wait $$job || status=1; done; exit $$status

# Five million seeds, other ones each night.
FIRST ?= 0

simulate-nightly:
	$(MAKE) simulate SEEDS=5000000 FIRST=$$(($$(date +%s) / 86400 * 5000000))

# What apps did, through servers that are killed: make activity CHANGES=10000
CHANGES ?= 10000

activity: setup
	go test ./e2e -run '^TestActivityThroughKills$$' -count=1 -v -timeout 0 -args -activity $(CHANGES)

# Each fuzz target of the module for FUZZTIME, and what its corpus covers.
fuzz:
	@bash scripts/fuzz.sh $(FUZZTIME)

# An hour for each of three targets, other ones each night: within 22 nights all had one.
fuzz-nightly:
	@PART=$$(($$(date +%s) / 86400 % 22))/22 bash scripts/fuzz.sh 1h

# What the tests notice when one thing of the code is changed, room by room:
# make mutants ROOMS="approval grantset", SAMPLE=150 of each. CONTRIBUTING.md has the scores.
SAMPLE ?= 0
SEED ?= 1

mutants:
	go run ./scripts/mutants -sample $(SAMPLE) -seed $(SEED) $(ROOMS)

# Pictures of every page into build/screenshots, and those that the documents
# show into docs/images.
screenshots: setup
	rm -rf build/screenshots
	go test ./consent -run '^TestLook$$' -count=1 -args -pictures=$(CURDIR)/build/screenshots
	cp build/screenshots/docs/*.png docs/images/

# The server with demo data on loopback: make dev ARGS="--data ./dev-data"
dev:
	go run ./cmd/grantkeeper dev $(ARGS)

clean:
	rm -rf bin build
