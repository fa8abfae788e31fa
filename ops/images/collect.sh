#!/bin/sh
# Collects what the image takes from a build: collect.sh BUILD PACKAGES OUT
#
#   BUILD      the directory of the compiled programs, such as target/release
#   PACKAGES   the directory of the image's Debian packages, a file for each (see root.sh)
#   OUT        gets programs/, without symbols, and sbom.cdx.json, the list of crates and packages
#
# Runs in a stage of the Dockerfile, and outside of Docker (build.sh).

set -eu

BUILD=$1 PACKAGES=$2 OUT=$3
HERE=$(dirname "$0")

mkdir -p "$OUT/programs"
for program in connect-ingest connect-worker connect-dispatcher connect-console connect-receiver connectctl; do
    # The section with the crates is not a symbol table and stays.
    strip -o "$OUT/programs/$program" "$BUILD/$program"
done
chmod 755 "$OUT"/programs/*
python3 "$HERE/sbom.py" --lock "$HERE/../../Cargo.lock" --packages "$PACKAGES" "$OUT"/programs/* >"$OUT/sbom.cdx.json"
