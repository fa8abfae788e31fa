#!/usr/bin/env bash
# Writes rules.yaml, which is not committed: a PrometheusRule for each file of ops/prometheus/rules. Run it before the manifests are
# applied.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

for file in ops/prometheus/rules/*.yml; do
    name=${file##*/}
    cat <<HEAD
---
# $file
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: connect-${name%.yml}
  labels: { app.kubernetes.io/part-of: connect }
spec:
HEAD
    # From the list of groups to the end, two columns further in. Empty lines stay empty.
    sed -n '/^groups:/,$ { s/^\(.\)/  \1/; p }' "$file"
done >ops/kubernetes/prometheus-operator/rules.yaml
