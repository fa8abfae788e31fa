#!/usr/bin/env bash
# A RabbitMQ user for each program of compose.yaml and one for connectctl, with the permissions that `connectctl roles` prints.
# Safe to repeat; a changed password is in force afterwards. Passwords hold letters and digits.

set -euo pipefail

user() { printf '{"name": "%s", "password": "%s", "tags": []}' "$1" "$2"; }
# permissions USER CONFIGURE READ
permissions() { printf '{"user": "%s", "vhost": "/", "configure": "%s", "write": "^amq\\\\.default$", "read": "%s"}' "$1" "$2" "$3"; }

definitions() {
    local consumed='^connect\\.(events|records|crm)(\\.dead)?$'
    printf '{"users": [%s, %s, %s, %s], "permissions": [%s, %s, %s, %s]}\n' \
        "$(user connect_ingest "$INGEST_PASSWORD")" \
        "$(user connect_worker "$WORKER_PASSWORD")" \
        "$(user connect_dispatcher "$DISPATCHER_PASSWORD")" \
        "$(user connect_operator "$CONSOLE_PASSWORD")" \
        "$(permissions connect_ingest '^$' '^$')" \
        "$(permissions connect_worker "$consumed" "$consumed")" \
        "$(permissions connect_dispatcher '^connect\\.webhooks\\.dead$' '^$')" \
        "$(permissions connect_operator '^connect\\..+$' '^connect\\..+$')"
}

if [[ ${1:-} == --print ]]; then
    definitions
    exit
fi
definitions | rabbitmqctl --node rabbit@rabbitmq import_definitions
# The import goes on in the background.
for user in "connect_ingest $INGEST_PASSWORD" "connect_worker $WORKER_PASSWORD" "connect_dispatcher $DISPATCHER_PASSWORD" \
    "connect_operator $CONSOLE_PASSWORD"; do
    # shellcheck disable=SC2086  # a name and a password, without spaces
    until rabbitmqctl --quiet --node rabbit@rabbitmq authenticate_user $user; do sleep 1; done
done
