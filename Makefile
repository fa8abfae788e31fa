# What a developer does here. `make` alone lists it; CI runs .ci/run.

.DEFAULT_GOAL := help
.PHONY: help run test lint bench fuzz clean

# Options for `make test` (those of cargo test), `make bench` (those of connect-bench) and `make fuzz` (those of connect-fuzz).
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run all of Connect with a demo agency and a sample, until Ctrl-C
	@ops/local/run.sh

test: ## run all tests against real servers; ARGS="name" picks
	@ops/local/test.sh $(ARGS)

lint: ## check formatting, clippy, and what else is installed of shellcheck and cargo-deny
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck -x .ci/run ops/local/*.sh ops/grafana/picture/*.sh tests/examples/*.sh; \
	else echo 'skipped: shellcheck is not installed'; fi
	@if command -v cargo-deny >/dev/null; then cargo deny check; \
	else echo 'skipped: cargo-deny is not installed'; fi

bench: ## measure a release build under load; ARGS="..." goes to connect-bench
	@ops/local/bench.sh $(ARGS)

fuzz: ## give the readers and the HTTP entry an hour of new generated input; ARGS="--minutes 5"
	@ops/local/fuzz.sh $(ARGS)

clean: ## stop the private servers, remove their data and all that was built
	@ops/local/services.sh stop-all .run
	@ops/local/services.sh stop-all target
	rm -rf .run
	cargo clean
