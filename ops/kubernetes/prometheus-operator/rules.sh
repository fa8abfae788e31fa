#!/usr/bin/env bash
# Prints rules.yaml: a PrometheusRule for each file of ops/prometheus/rules, which stays the only source.
#
#   ops/kubernetes/prometheus-operator/rules.sh >ops/kubernetes/prometheus-operator/rules.yaml

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

echo '# Made by rules.sh of ops/prometheus/rules: change the rules there, and run it again.'
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
done
