#!/usr/bin/env bash
# Builds the images of compose.yaml where no image registry can be reached: from Debian's packages, and from programs that
# cargo compiles on this machine.
#
#   build.sh [programs] [postgres] [rabbitmq] [prometheus]
#                      builds these (default: all four), and prints the lines that make compose.yaml use them
#   build.sh source    compiles the programs in a container, as `docker build .` does. Needs BuildKit; the compiler is the
#                      one of this machine
#
#   CONNECT_PROGRAMS   directory of programs to take instead of compiling them; made by `cargo auditable build --release`
#
# Images: connect:local, connect-postgres:15, connect-rabbitmq:3.10, connect-prometheus:2.42. Their base, connect-debian:bookworm,
# is made once; `docker rmi connect-debian:bookworm` has the next build fetch newer packages. The list of what is in
# connect:local is written to target/images/sbom.cdx.json.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
IMAGES=$ROOT/ops/images
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
WORK=$TARGET/images
DEBIAN=connect-debian:bookworm
RUST=connect-rust:local
AUDITABLE_VERSION=$(sed -n 's/^ARG CARGO_AUDITABLE_VERSION=//p' "$ROOT/Dockerfile")

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "${0##*/}: $*"
    exit 1
}

# quietly NAME COMMAND...: the output goes to a file, whose end is printed on failure.
quietly() {
    local log=$WORK/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null || { tail -n 25 "$log" >&2 && fail "failed: $*; its output is in $log"; }
}

# build IMAGE DIRECTORY [OPTION...]: without BuildKit, which needs a plugin that not every Docker has.
build() {
    local name=${1//[:\/]/-}
    DOCKER_BUILDKIT=0 quietly "$name" docker build --build-arg "DEBIAN_IMAGE=$DEBIAN" --tag "$1" "${@:3}" "$2"
    say "built $1 ($(docker image inspect --format '{{.Size}}' "$1" | numfmt --to=iec))"
}

debian() {
    docker image inspect "$DEBIAN" >/dev/null 2>&1 && return
    say "making $DEBIAN of Debian's packages"
    "$IMAGES/debian.sh" "$DEBIAN"
}

compile() {
    PATH=$TARGET/tools/bin:$PATH
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo-auditable >/dev/null ||
        quietly cargo-auditable cargo install --locked --root "$TARGET/tools" "cargo-auditable@$AUDITABLE_VERSION"
    say 'compiling the programs, which takes some minutes the first time'
    cd "$ROOT"
    quietly cargo cargo auditable build --release --locked --bins -p ingest -p worker -p dispatcher -p admin
}

programs() {
    local context=$WORK/context container
    [[ -n ${CONNECT_PROGRAMS:-} ]] || compile
    rm -rf "$context" "$WORK/packages"
    mkdir -p "$context/ops/images"
    cp "$IMAGES/root.sh" "$context/ops/images/"
    DOCKER_BUILDKIT=0 quietly root docker build --build-arg "DEBIAN_IMAGE=$DEBIAN" --target runtime --tag connect-runtime:local \
        --file "$ROOT/Dockerfile" "$context"
    container=$(docker create connect-runtime:local)
    docker cp "$container:/var/lib/dpkg/status.d" "$WORK/packages" >/dev/null
    docker rm "$container" >/dev/null
    "$IMAGES/collect.sh" "${CONNECT_PROGRAMS:-$TARGET/release}" "$WORK/packages" "$context"
    cp "$context/sbom.cdx.json" "$WORK/"
    build connect:local "$context" --target prebuilt --file "$ROOT/Dockerfile"
}

# The toolchain of this machine on Debian, and the certificates that this machine trusts, for a proxy that intercepts TLS.
rust() {
    local context=$WORK/rust
    rm -rf "$context"
    mkdir -p "$context"
    cp -a "$(rustc --print sysroot)" "$context/toolchain"
    rm -rf "$context/toolchain/share"
    cp /etc/ssl/certs/ca-certificates.crt "$context/"
    cat >"$context/Dockerfile" <<'DOCKERFILE'
ARG DEBIAN_IMAGE
FROM ${DEBIAN_IMAGE}
RUN apt-get -q update && apt-get -q -y install --no-install-recommends gcc libc6-dev
COPY toolchain /usr/local/toolchain
COPY ca-certificates.crt /etc/ssl/certs/
ENV CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:/usr/local/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DOCKERFILE
    build "$RUST" "$context"
}

source_build() {
    local docker=docker
    # A client since 23.0 needs the plugin buildx for BuildKit, Debian's 20.10 has its own.
    docker buildx version >/dev/null 2>&1 || docker=/usr/bin/docker
    rust
    say 'compiling the programs in a container, which takes some minutes'
    DOCKER_BUILDKIT=1 quietly source "$docker" build --progress plain --build-arg "DEBIAN_IMAGE=$DEBIAN" \
        --build-arg "RUST_IMAGE=$RUST" --tag connect:source "$ROOT"
    say "built connect:source ($(docker image inspect --format '{{.Size}}' connect:source | numfmt --to=iec))"
}

docker version >/dev/null 2>&1 || fail "Docker's engine does not respond; is it running, and may this user use it?"
mkdir -p "$WORK"
(($# > 0)) || set -- programs postgres rabbitmq prometheus
debian
for image in "$@"; do
    case $image in
    programs) programs ;;
    source) source_build ;;
    postgres) build connect-postgres:15 "$IMAGES/postgres" && echo POSTGRES_IMAGE=connect-postgres:15 ;;
    rabbitmq) build connect-rabbitmq:3.10 "$IMAGES/rabbitmq" && echo RABBITMQ_IMAGE=connect-rabbitmq:3.10 ;;
    prometheus) build connect-prometheus:2.42 "$IMAGES/prometheus" && echo PROMETHEUS_IMAGE=connect-prometheus:2.42 ;;
    *) fail "unknown image $image" ;;
    esac
done
