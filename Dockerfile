# All of Connect's programs in one image; which one runs is the command's to say. The image has a user of its own, needs no
# writable file system, and carries a list of its parts: /usr/share/connect/sbom.cdx.json (CycloneDX), and in each program the
# crates that it was compiled from (`cargo audit bin` reads them).
#
# `docker build .` compiles the programs, with BuildKit. Where no image registry can be reached, or without BuildKit,
# `ops/images/build.sh` makes the base images of Debian's packages and builds the target `prebuilt`, which takes programs that
# were compiled outside. docs/deployment.md explains both.

ARG DEBIAN_IMAGE=debian:bookworm-slim
ARG RUST_IMAGE=rust:1-bookworm

# The files of the few Debian packages that the programs need.
FROM ${DEBIAN_IMAGE} AS root
COPY ops/images/root.sh /
RUN sh /root.sh /image

FROM scratch AS runtime
COPY --from=root /image /
# By number, so that an orchestrator can see that it isn't root.
USER 10001:10001
# In a container, the outside is who should reach them.
ENV PATH=/usr/local/bin:/usr/bin:/bin \
    CONNECT_INGEST_ADDR=0.0.0.0:8080 \
    CONNECT_METRICS_ADDR=0.0.0.0:9100
EXPOSE 8080 8090 9100
# SIGTERM drains: give it CONNECT_SHUTDOWN_TIMEOUT (25s) and a little more.
STOPSIGNAL SIGTERM
CMD ["connect-ingest"]

# Before the builder, because a build without BuildKit runs every stage up to the one that it is asked for.
FROM runtime AS prebuilt
COPY programs/ /usr/local/bin/
COPY sbom.cdx.json /usr/share/connect/

FROM ${RUST_IMAGE} AS builder
ARG CARGO_AUDITABLE_VERSION=0.7.7
RUN cargo install --quiet --locked cargo-auditable@${CARGO_AUDITABLE_VERSION}
# For the list of parts; not in every image with Rust.
RUN python3 -c 'import json, tomllib, zlib' 2>/dev/null \
    || { apt-get -q update && apt-get -q -y install --no-install-recommends python3; }
WORKDIR /src
COPY . .
COPY --from=root /image/var/lib/dpkg/status.d /packages
# Dependencies and what was compiled stay in caches between builds, which a layer for dependencies can't do once
# Cargo.lock changes. A cache isn't part of the image, so the programs are copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo auditable build --release --locked --bins -p ingest -p worker -p dispatcher -p admin \
    && ops/images/collect.sh target/release /packages /out

FROM runtime
COPY --from=builder /out/programs/ /usr/local/bin/
COPY --from=builder /out/sbom.cdx.json /usr/share/connect/
