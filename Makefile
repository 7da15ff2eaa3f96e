# Targets: build run test test-backends race lint fuzz bench bench-full bench-micro bench-floor bench-check bench-crosscheck docs
# test-clients torture crash hostile soak large install clean. Go and make are all that test needs of its own; the client runs of bench/clients install what
# they need under ~/.cache, and bench brings Apache Kafka there.

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS    := -s -w -X main.version=$(VERSION)
DATA       ?= ./data
PREFIX     ?= /usr/local
DESTDIR    ?=
FUZZTIME   ?= 10s
BENCHTIME  ?= 1s
# Pinned so that two machines report the same findings.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.1
HOT        := ./perf/... ./diskio/... ./netio/... ./engine/... ./kafka/...
# What bench-check compares with (HEAD where the tree has changes, else the commit before), and in which packages;
# recovering and opening 10,000 shards take long and are S3's affair.
BASE       ?=
CHECKED    := diskio netio engine kafka/recordbatch
UNCHECKED  := Recovery|Open
# bench-full goes on where it ended; another OUT begins anew.
OUT        ?= bench-results/full

CUTS            ?= 100000
SOAK_SECONDS    ?= 3600
TORTURE_SECONDS ?= 3600
SWEEP           ?= full
CRASH_ROUNDS    ?= 20
HOSTILE_SECONDS ?= 10

.PHONY: build run test test-go test-e2e test-backends race lint fuzz bench bench-full bench-micro bench-check bench-crosscheck docs test-clients torture crash hostile soak large install clean

build:
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/millrace ./cmd/millrace

run: build
	./bin/millrace serve --data-dir $(DATA)

test: test-go test-e2e

# The second pass runs the costly checks that the tag turns on.
test-go:
	CGO_ENABLED=0 $(GO) test ./...
	CGO_ENABLED=0 $(GO) test -tags invariants ./...

test-e2e: build
	@if [ -x bench/clients/e2e/run.sh ]; then MILLRACE=$(CURDIR)/bin/millrace bench/clients/e2e/run.sh; fi

# Both disk backends, on this host's file system and on XFS; needs root for the loop device.
test-backends:
	CGO_ENABLED=0 .ci/test-backends

race:
	CGO_ENABLED=1 $(GO) test -race ./...

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags invariants ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test -run '^TestTidy' .

# Every fuzz target of every package, for FUZZTIME each.
fuzz:
	@set -e; for dir in $$(git ls-files '*_test.go' | grep -v '^bench/clients/' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$dir/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "fuzz $$dir $$target"; \
			$(GO) test ./$$dir -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

# Power cuts, kills and flipped bits on a simulated disk: CUTS in all, or as many as TORTURE_SECONDS allow, half of
# them under the engine alone and half under a whole broker's stores, in processes of 300, since a broker whose disk
# failed keeps its memory. Then every file of a small directory is damaged, with SWEEP=full at every eighth byte.
torture:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; end=$$(($$(date +%s) + $(TORTURE_SECONDS))); \
	$(GO) test -c -o "$$dir/broker" ./cmd/broker; $(GO) test -c -o "$$dir/engine" ./engine; \
	run() { (cd $$1; MILLRACE_TEST_CUTS=300 "$$dir/$$2" -test.run "^$$3\$$" -test.v >"$$dir/log" 2>&1) || { cat "$$dir/log"; exit 1; }; grep 'power cuts' "$$dir/log"; }; \
	left=$$(($(CUTS) / 600)); while [ $$left -gt 0 ] && [ $$(date +%s) -lt $$end ]; do left=$$((left - 1)); \
		run engine engine TestHistory; run cmd/broker broker TestPowerCuts; \
	done; cd cmd/broker; MILLRACE_TEST_SWEEP=$(SWEEP) "$$dir/broker" -test.run '^TestOfflineDamage$$' -test.v -test.timeout 4h

# A real broker of each backend under producers, groups and changes of topics, ended CRASH_ROUNDS times by SIGKILL, after
# SIGSTOP, while it starts, and cleanly; and power cuts on ext4 and XFS on a loop device, which needs root.
crash:
	MILLRACE_TEST_CRASH_ROUNDS=$(CRASH_ROUNDS) CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 24h -run '^(TestCrashes|TestDevicePowerCuts)$$' ./cmd/broker

# Hostile clients over loopback, HOSTILE_SECONDS of each kind and as long of well-formed requests, with the broker on one
# core and them on the other: what a producer and a consumer beside them wait, what memory it costs, and what is left.
hostile:
	MILLRACE_TEST_HOSTILE_SECONDS=$(HOSTILE_SECONDS) MILLRACE_TEST_FUZZ_TIME=30s CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 2h \
		-run '^Test(Hostile|Bomb|L0)' ./cmd/broker

# Everything that goes on at a broker at once, for as long; what it takes must not grow.
soak:
	MILLRACE_TEST_SOAK_SECONDS=$(SOAK_SECONDS) CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 24h -run '^TestSoak$$' ./cmd/broker

# The admin page and what is behind it, of a broker with 10,000 partitions and 1,000 groups; the page needs chromium.
large:
	MILLRACE_TEST_LARGE=1 CGO_ENABLED=0 $(GO) test -count=1 -v -run '^TestPageAtSize$$' -bench '^BenchmarkAdmin$$' -benchtime 20x ./cmd/broker

# Side by side with Apache Kafka, which needs Java 17 and Maven: the short form, a quarter of each workload in three
# rounds (some ten minutes, too few rounds for a verdict), and all of it, which takes many hours.
bench: build
	./bin/millrace bench compare --workloads P1,P3,L1,F1 --rounds 3 --bytes 1GB --warm 30s

bench-full: build
	./bin/millrace bench compare --rounds 7 --placement both --out $(OUT) --resume

bench-micro:
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(HOT)

# What the kernel alone takes here for the input and output of P1, L1 and F1.
bench-floor:
	CGO_ENABLED=0 $(GO) test ./bench -run '^$$' -bench Floor -benchtime 10000x -count 5

# Fails where the hot path is slower than in BASE by more than 15 %.
bench-check:
	$(GO) run ./bench/check -base '$(BASE)' -skip '$(UNCHECKED)' $(CHECKED)

# What bench's load, kgo, Apache Kafka's tools and librdkafka each reach and cost the broker. What a client needs is built
# once, outside the tree; one that cannot be had is left out.
bench-crosscheck: build
	-bench/clients/setup/setup.sh rdkafka_performance
	$(GO) run ./bench/crosscheck -rdkafka "$${MILLRACE_CLIENTS_CACHE:-$$HOME/.cache/millrace-clients}/rdkafka_performance/rdkafka_performance"

# docs/configuration.md and docs/protocol.md are written from the tables that the broker itself runs on.
docs: build
	./bin/millrace docs configuration > docs/configuration.md
	./bin/millrace docs protocol > docs/protocol.md

# The longer matrix of clients; its result table is docs/clients.md.
test-clients: build
	MILLRACE=$(CURDIR)/bin/millrace bench/clients/run.sh

# The program with its man pages, shell completion and systemd unit, below DESTDIR and PREFIX; settings that are there
# already stay. `systemctl enable --now millrace` starts it.
install: build
	install -D -m 755 bin/millrace $(DESTDIR)$(PREFIX)/bin/millrace
	./bin/millrace docs man bin/man
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 bin/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	./bin/millrace completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/millrace
	./bin/millrace completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_millrace
	./bin/millrace completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/millrace.fish
	install -d $(DESTDIR)/etc/systemd/system $(DESTDIR)/etc/millrace
	sed 's|/usr/local/bin|$(PREFIX)/bin|' cmd/millrace/millrace.service > $(DESTDIR)/etc/systemd/system/millrace.service
	[ -e $(DESTDIR)/etc/millrace/broker.properties ] || install -m 644 cmd/millrace/broker.properties $(DESTDIR)/etc/millrace/broker.properties

clean:
	rm -rf bin
