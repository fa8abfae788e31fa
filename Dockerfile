# syntax=docker/dockerfile:1

# All of Connect's programs in one image; which one runs is the command's to say.

FROM rust:1-bookworm AS builder
WORKDIR /src
COPY . .
# Dependencies and what was compiled stay in caches between builds, which a layer for dependencies can't do once
# Cargo.lock changes. A cache isn't part of the image, so the programs are copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bins -p ingest -p worker -p dispatcher \
    && mkdir /programs \
    && cp target/release/connect-ingest target/release/connect-worker target/release/connect-dispatcher \
          target/release/connectctl /programs/

FROM debian:bookworm-slim
# Receivers' certificates are checked against ca-certificates; curl asks /readyz in health checks.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin connect
COPY --from=builder /programs/ /usr/local/bin/
# By number, so that an orchestrator can see that it isn't root.
USER 10001:10001
# In a container, the outside is who should reach them.
ENV CONNECT_INGEST_ADDR=0.0.0.0:8080 \
    CONNECT_METRICS_ADDR=0.0.0.0:9100
EXPOSE 8080 9100
# SIGTERM drains: give it CONNECT_SHUTDOWN_TIMEOUT (25s) and a little more.
STOPSIGNAL SIGTERM
CMD ["connect-ingest"]
