# Wirebeat from a checkout. `make help` lists what there is.
#
# Every target installs first what it needs and this machine lacks (scripts/setup.sh). What is built
# belongs to the owner of the checkout, also under sudo; CARGO_TARGET_DIR is respected.

PREFIX ?= /usr/local
DESTDIR ?=
# More arguments for what demo, bench or test runs: make demo ARGS='--time 3s'
ARGS ?=
# Only the owner of the checkout compiles: see scripts/lib.sh.
AS_USER = . scripts/lib.sh && as_user

.DEFAULT_GOAL := help
# The steps of a check come one after the other.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { \
		name[++count] = $$1; says[count] = $$2; if (length($$1) > width) width = length($$1) } \
		END { for (i = 1; i <= count; i++) printf "  make %-*s  %s\n", width, name[i], says[i] }' Makefile

.PHONY: demo
demo: ## Show exact traffic on a virtual cable, with a report of it
	@scripts/setup.sh build
	@scripts/run.sh wirebeat-cli wirebeat demo $(ARGS)

.PHONY: test
test: ## Run every test, and say which were skipped and why
	@scripts/setup.sh build test
	@scripts/test.sh $(ARGS)

.PHONY: test-guest
test-guest: ## Run the tests that drivers decide in emulated machines with real drivers (ARGS=--small: two minutes)
	@scripts/setup.sh build guest
	@scripts/test-guest.sh $(ARGS)

.PHONY: packetdrill
packetdrill: ## Run packetdrill's scripts against our own TCP (PACKETDRILL=its checkout; docs/tcp.md; ARGS=--freebsd: FreeBSD's)
	@scripts/packetdrill.sh $(ARGS)

.PHONY: check
check: export LOCKED = --locked
check: ## What CI runs: format, lints, docs, tests (licences of dependencies among them)
	@scripts/setup.sh build test check
	$(AS_USER) cargo fmt --all --check
	shellcheck -x .ci/run scripts/*.sh
	$(AS_USER) cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings
# the fuzz targets, apart from the workspace, compile; libFuzzer itself (C++) is linked only by who runs them
	$(AS_USER) env CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a cargo check --manifest-path fuzz/Cargo.toml $(LOCKED) --target-dir "$$(target_dir)"
	$(AS_USER) env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps $(LOCKED)
	@scripts/test.sh

.PHONY: build
build: ## Compile the program, optimised, with its debug information in a file beside it
	@scripts/setup.sh build
	$(AS_USER) cargo build --release --locked -p wirebeat-cli
	@$(AS_USER) scripts/split-debug.sh "$$(target_dir)/release/wirebeat"

.PHONY: install
install: build ## Install program, man pages and completions below PREFIX (/usr/local)
	@scripts/install.sh '$(DESTDIR)$(PREFIX)'

.PHONY: bench
bench: ## Measure Wirebeat and its peers in one run
	@scripts/setup.sh build
	@scripts/run.sh wirebeat-bench wirebeat-bench $(ARGS)

.PHONY: bench-profiles
bench-profiles: ## The same distributions from D-ITG, MGEN and Wirebeat, as they arrive
	@scripts/setup.sh build
	@scripts/run.sh wirebeat-bench wirebeat-bench --only profiles --rounds 1 --output docs/profiles.md $(ARGS)

.PHONY: bench-replay
bench-replay: ## Archives sent again: time violations, records per second, memory, beside the published figures
	@scripts/setup.sh build
	@scripts/run.sh wirebeat-bench wirebeat-bench --only replay --rounds 3 --output docs/benchmarks-replay.md $(ARGS)

.PHONY: bench-frames
bench-frames: ## Every frame seen: AF_XDP beside its bare loops, observations, captures and packet logs
	@scripts/setup.sh build
	@scripts/run.sh wirebeat-bench wirebeat-bench --only observations,af-xdp,kept --rounds 3 --output docs/benchmarks-frames.md $(ARGS)

.PHONY: bench-measuring
bench-measuring: ## What measuring is worth: delay behind a line that knows its own, the cost of --metrics, --otlp and --tui, devices of known limits
	@scripts/setup.sh build
	@$(AS_USER) cargo build --release --locked -p wirebeat-cli
	@scripts/run.sh wirebeat-bench wirebeat-bench --only delay-line,watched,limits --rounds 7 --output docs/benchmarks-measuring.md $(ARGS)

.PHONY: bench-sessions
bench-sessions: ## Sessions: our TCP in memory, HTTP beside nginx and wrk, bulk data beside iperf3, exact starts, CUBIC beside Linux's
	@scripts/setup.sh build peers
	@scripts/run.sh wirebeat-bench wirebeat-bench --only in-memory,scale,wire,mix,http,bulk,starts,fairness --rounds 3 --full --time 1s --output docs/benchmarks-sessions.md $(ARGS)

.PHONY: bench-generators
bench-generators: ## The comparison of Iperf, D-ITG, MGEN and RUDE repeated, as docs/generators.html (30 minutes)
	@scripts/setup.sh build peers
	@$(AS_USER) cargo build --release --locked -p wirebeat-cli
	@$(AS_USER) scripts/split-debug.sh "$$(target_dir)/release/wirebeat"
	@scripts/run.sh wirebeat-bench wirebeat-bench --study generators --output docs/generators.html $(ARGS)

.PHONY: bench-pktgen
bench-pktgen: ## The study of pktgen repeated, as docs/pktgen.html: rates, cores, latency (20 minutes)
	@scripts/setup.sh build peers
	@scripts/run.sh wirebeat-bench wirebeat-bench --study pktgen --output docs/pktgen.html $(ARGS)

.PHONY: audit
audit: ## Check dependencies with cargo-deny: licences, sources and, over the network, advisories
	@scripts/setup.sh build
	@$(AS_USER) cargo deny --version >/dev/null 2>&1 || $(AS_USER) cargo install --locked cargo-deny
	$(AS_USER) cargo deny --locked check

.PHONY: fuzz-smoke
fuzz-smoke: ## Feed every parser any bytes for 20 s each (nightly Rust and cargo-fuzz)
	@$(AS_USER) cargo +nightly fuzz --version
	@for target in $$($(AS_USER) cargo +nightly fuzz list); do \
		$(AS_USER) cargo +nightly fuzz run "$$target" -- -max_total_time=20 || exit; \
	done

.PHONY: clean
clean: ## Remove what was compiled
	$(AS_USER) cargo clean
