#!/usr/bin/env bash
# Makes the Erlang cookie at the first start, then becomes the server. The broker itself reads RABBITMQ_DEFAULT_USER and
# RABBITMQ_DEFAULT_PASS.

set -euo pipefail

cookie=$HOME/.erlang.cookie
if [[ ! -s $cookie ]]; then
    (umask 077 && head -c 24 /dev/urandom | base64 >"$cookie.new")
    chmod 400 "$cookie.new"
    mv "$cookie.new" "$cookie"
fi
# Docker keeps the log.
export RABBITMQ_LOGS=-
exec "$@"
