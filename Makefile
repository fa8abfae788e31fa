# Commands for developers. `make` alone lists them; CI runs .ci/run.

.DEFAULT_GOAL := help
.PHONY: help run test test-containers lint bench fuzz torture clean

# Options for `make test` (those of cargo test), and of connect-bench, connect-fuzz and connect-torture for the other targets.
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run all of Connect with a demo tenant and a sample, until Ctrl-C
	@ops/local/run.sh

test: ## run all tests against real servers; ARGS="name" selects tests
	@ops/local/test.sh $(ARGS)

test-containers: ## start everything of compose.yaml in containers and test it; needs Docker and Compose, and root without a registry
	@ops/images/test/run.sh

lint: ## check formatting, clippy, and what else is installed of shellcheck and cargo-deny
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck -x .ci/run ops/local/*.sh ops/images/*.sh ops/images/*/*.sh ops/compose/*.sh ops/kubernetes/*/*.sh \
		tests/examples/*.sh; \
	else echo 'skipped: shellcheck is not installed'; fi
	@if command -v cargo-deny >/dev/null; then cargo deny check; \
	else echo 'skipped: cargo-deny is not installed'; fi

bench: ## measure a release build under load; ARGS="batches single" selects sections, ARGS="--document" writes docs/capacity.md
	@ops/local/bench.sh $(ARGS)

fuzz: ## fuzz the parsers and the HTTP server for an hour; ARGS="--minutes 5"
	@ops/local/fuzz.sh $(ARGS)

torture: ## kill, stop and cut off everything under load, and check the result; ARGS="--minutes 10 --seed 7"
	@ops/local/torture.sh $(ARGS)

clean: ## stop the private servers, remove their data and all build output
	@ops/local/services.sh stop-all .run
	@ops/local/services.sh stop-all target
	rm -rf .run
	cargo clean
