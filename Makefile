# What a contributor runs. `make test` is the whole truth: it needs only the Go
# toolchain and, on Debian, installs the rest by itself.

SHELL := /bin/bash
export PATH := $(PATH):/usr/local/go/bin

FUZZTIME ?= 30s

.PHONY: test lint setup build release bench bench-postgres bench-scale flood timing signin faults seeds activity fuzz screenshots dev clean

# Everything, with the race detector, browser tests included, the longest first so
# that they run beside the others; fails when a test was skipped.
test: setup lint
	@bash scripts/test.sh -race -count=1 -timeout 20m ./store ./consent ./signin ./e2e/... ./...

lint:
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; \
	fi
	go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	for module in . bench; do (cd $$module && go vet ./... && $(CURDIR)/bin/staticcheck -checks all ./...) || exit 1; done
	cd scripts/lint && go build -o $(CURDIR)/bin/lint .
	bin/lint

setup:
	@command -v go >/dev/null || { echo "Go is missing: https://go.dev/dl/" >&2; exit 1; }
	@bash scripts/setup-debian.sh

build:
	CGO_ENABLED=0 go build -trimpath -o bin/grantkeeper ./cmd/grantkeeper

# What a release consists of: static binaries, stripped, and their checksums.
# The same source and toolchain give the same bytes. make release VERSION=0.1.0
VERSION ?= $(shell sed -n 's/^var version = "\(.*\)"/\1/p' cmd/grantkeeper/version.go)
PLATFORMS ?= linux/amd64 linux/arm64

release:
	rm -rf bin/release && mkdir -p bin/release
	@for platform in $(PLATFORMS); do \
		echo "grantkeeper $(VERSION) $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -trimpath \
			-ldflags '-s -w -buildid= -X main.version=$(VERSION)' \
			-o bin/release/grantkeeper-$(VERSION)-$${platform%/*}-$${platform#*/} ./cmd/grantkeeper || exit 1; \
	done
	cd bin/release && sha256sum grantkeeper-* > SHA256SUMS

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
# were right: make faults ARGS="-for 1h -seed 7"
faults: setup
	go test ./e2e/faults -count=1 -v -timeout 0 -args $(ARGS)

# The same in one process, on a clock that only the test moves: make seeds SEEDS=10000
SEEDS ?= 1000

seeds: setup
	PGONLY=1 go test ./store -run '^TestF11NodesInOneProcess$$' -count=1 -v -timeout 0 -args -seeds $(SEEDS)

# What apps did, through servers that are killed: make activity CHANGES=10000
CHANGES ?= 10000

activity: setup
	go test ./e2e -run '^TestActivityThroughKills$$' -count=1 -v -timeout 0 -args -activity $(CHANGES)

# Each fuzz target of the module for FUZZTIME.
fuzz:
	@bash scripts/fuzz.sh $(FUZZTIME)

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
