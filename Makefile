# Needs Go and make; "make race" also a C compiler, "make benchcmp" also git,
# "make conformance" also Node, "make test-clients" also Node and npm.
# CI calls these targets and nothing else.

GO       ?= go
PKG      ?= ./...
FUZZTIME ?= 10s
BENCH    ?= .
BENCHTIME ?= 1s
COUNT    ?= 10
TIMEOUT  ?= 10m

# How long "make soak" runs.
SLUICE_SOAK ?= 10m

# How often each test of "make kills" kills.
SLUICE_KILLS ?= 100

# What the suite runs: "make bench ONLY=fanout-ws-10k-* ROUNDS=5".
ONLY   ?=
ROUNDS ?= 0
BENCH_OUT ?= bench/out

# What the compiler is told of the relay's hot paths; "make profile" makes it
# anew, and with "make build PGO=off" it is left out.
PGO ?= $(CURDIR)/profiles/pgo/relay.pgo

# A release archive has no git directory: then the binary says "dev".
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: PKG=$(PKG) FUZZTIME=$(FUZZTIME) BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) COUNT=$(COUNT)"

.PHONY: run
run: build ## build and run the relay: bin/sluice serve
	bin/sluice serve

# On a socket of its own, so that it is in nobody's way. A question of an agent
# is answered from another terminal with the two variables that it prints.
.PHONY: demo
demo: build ## a relay, a fleet of agents and a tail, side by side; ^C ends it
	@.ci/demo

# Static, without paths of the machine that builds it. The version goes in by
# the linker, so that building asks nothing of git.
.PHONY: build
build: ## build bin/sluice and bin/sluicebench
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -pgo='$(PGO)' -ldflags '-X main.buildVersion=$(VERSION)' -o bin/sluice ./cmd/sluice
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/sluicebench ./cmd/sluicebench

# A module of its own, so that the relay's go.mod has nothing of them.
.PHONY: rivals
rivals: ## build bin/benchrivals, the servers that the suite compares with
	cd bench/rivals && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o ../../bin/benchrivals .

.PHONY: test
test: ## run all tests
	$(GO) test -timeout $(TIMEOUT) $(PKG)

.PHONY: race
race: ## run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) $(PKG)

.PHONY: check
check: fmt-check vet lint tidy-check arch ## format, vet, lint, import rules, go.mod, documents

.PHONY: fmt
fmt: ## format all Go files
	$(GO) tool gofumpt -l -w .

.PHONY: fmt-check
fmt-check: ## fail if a Go file is not formatted
	@out=$$($(GO) tool gofumpt -l .) || exit 1; \
	if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet $(PKG)

.PHONY: lint
lint: ## staticcheck
	$(GO) tool staticcheck $(PKG)

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not what the code needs
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: arch
arch: ## import rules, doc.go files, paths named in documents
	$(GO) test ./internal/archtest

# "go test -list" prints the names of a package's targets before its "ok". The
# toolchain now and then reports the end of FUZZTIME itself as a failure
# ("context deadline exceeded", no input named), more often on a busy machine:
# such a target is run again, up to four times.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@list=$$($(GO) test -list '^Fuzz' $(PKG)) || { echo "$$list"; exit 1; }; \
	out=$$(mktemp) && trap 'rm -f "$$out"' EXIT; \
	run() { \
		echo "== $$1 $$2"; \
		$(GO) test -run '^$$' -fuzz "^$$2\$$" -fuzztime $(FUZZTIME) "$$1" </dev/null >"$$out" 2>&1; \
		code=$$?; cat "$$out"; return $$code; \
	}; \
	echo "$$list" | awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r pkg name; do \
		for try in 1 2 3 4 5; do \
			run "$$pkg" "$$name" && continue 2; \
			grep -q 'context deadline exceeded' "$$out" && ! grep -q 'Failing input' "$$out" || break; \
		done; \
		exit 1; \
	done

.PHONY: bench
bench: build rivals ## run the benchmark suite beside its rivals (15 minutes)
	bin/sluicebench run --out '$(BENCH_OUT)' --revision '$(VERSION)' --rounds $(ROUNDS) $(ONLY:%=--only '%')

.PHONY: bench-sync
bench-sync: build ## measure the encrypted sync relay and its device (7 minutes)
	bin/sluicebench sync --out '$(BENCH_OUT)'

.PHONY: bench-firehose
bench-firehose: build ## measure the repository event stream (5 minutes)
	bin/sluicebench firehose --out '$(BENCH_OUT)'

.PHONY: bench-aepws
bench-aepws: build ## measure the aep-0.1 binding (8 minutes)
	bin/sluicebench aepws --out '$(BENCH_OUT)'

.PHONY: bench-quick
bench-quick: build rivals ## a smoke of the suite: everything works, no figure counts
	bin/sluicebench run --quick --out '$(BENCH_OUT)/quick' --revision '$(VERSION)'
	bin/sluicebench sync --quick --out '$(BENCH_OUT)/quick'
	bin/sluicebench firehose --quick --out '$(BENCH_OUT)/quick'
	bin/sluicebench aepws --quick --out '$(BENCH_OUT)/quick'

.PHONY: test-rivals
test-rivals: ## vet and test the rivals
	cd bench/rivals && $(GO) vet ./... && $(GO) test -timeout $(TIMEOUT) ./...

.PHONY: microbench
microbench: ## run the functions' own benchmarks matching BENCH
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -timeout $(TIMEOUT) $(PKG)

# The test has no time limit of its own: it ends by itself, some minutes after
# SLUICE_SOAK at most.
.PHONY: soak
soak: ## churn, stalls, faults and restarts for SLUICE_SOAK, every view checked
	SLUICE_SOAK='$(SLUICE_SOAK)' $(GO) test -count=1 -v -timeout 0 -run '^TestSoak$$' ./internal/faults

.PHONY: kills
kills: ## kill relays and devices SLUICE_KILLS times: the firehose, aep-0.1, sync
	SLUICE_KILLS='$(SLUICE_KILLS)' $(GO) test -count=1 -v -timeout 60m -run 'Kill|Chain|PowerCuts' ./internal/firehosefaults ./internal/aepwsfaults ./internal/devicefaults

# Both revisions are measured by the same command on the same machine.
.PHONY: benchcmp
benchcmp: ## compare benchmarks with those of revision BASE (benchstat)
	@test -n "$(BASE)" || { echo "usage: make benchcmp BASE=<revision> [PKG=./engine/fanout] [BENCH=.] [COUNT=10]"; exit 2; }
	@mkdir -p bench/out
	@tree=$$(mktemp -d) && trap 'git worktree remove --force "$$tree" >/dev/null 2>&1; rm -rf "$$tree"' EXIT && \
	git worktree add --force --detach "$$tree" "$(BASE)" >/dev/null && \
	echo "== $(BASE)" && \
	(cd "$$tree" && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) -timeout 60m $(PKG)) >bench/out/old.txt && \
	echo "== work tree" && \
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) -timeout 60m $(PKG) >bench/out/new.txt && \
	$(GO) tool benchstat bench/out/old.txt bench/out/new.txt

.PHONY: conformance
conformance: build ## run the public live checker against bin/sluice (needs Node)
	@if checker=$$(.ci/live-checker); then \
		SLUICE_BIN='$(CURDIR)/bin/sluice' AEP_LIVE_JS="$$checker" $(GO) test -count=1 -v -timeout $(TIMEOUT) ./internal/conformance; \
	elif [ $$? -eq 3 ]; then echo "conformance: skipped, for the reason above"; \
	else exit 1; fi

# The tests install the clients once, at pinned versions, and say why if they are
# skipped: that is why -v is there.
.PHONY: test-clients
test-clients: ## run public clients and a browser against the relay (needs Node, npm, Chromium)
	SLUICE_CLIENTS='$(CURDIR)/bench/out/clients' \
		$(GO) test -count=1 -v -timeout $(TIMEOUT) ./internal/nodetest ./internal/firehoseclients ./internal/aepwsclients

# A profile names the file that was run: the relay runs from a directory that
# says nothing of the machine.
.PHONY: profile
profile: build ## record CPU, heap, lock and wait profiles and refresh the PGO input
	@mkdir -p /tmp/sluice-profile profiles/pgo && cp bin/sluice /tmp/sluice-profile/
	rm -f profiles/out/*.pprof
	bin/sluicebench profile --relay /tmp/sluice-profile/sluice --out profiles/out $(ONLY:%=--only '%')
	@rm -r /tmp/sluice-profile
	$(GO) tool pprof -proto -output profiles/pgo/relay.pgo profiles/out/*.cpu.pprof
	$(GO) tool pprof -top -nodecount 25 bin/sluice profiles/pgo/relay.pgo

.PHONY: cover
cover: ## test coverage per function, into coverage.out
	$(GO) test -timeout $(TIMEOUT) -coverprofile coverage.out $(PKG)
	$(GO) tool cover -func coverage.out | tail -n 1

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin bench/out profiles/out coverage.out
