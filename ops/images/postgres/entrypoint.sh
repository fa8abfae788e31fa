#!/usr/bin/env bash
# Creates the cluster with POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB at the first start, then becomes the server.

set -euo pipefail

USER_NAME=${POSTGRES_USER:-postgres}
DATABASE=${POSTGRES_DB:-$USER_NAME}

create_cluster() {
    [[ -n ${POSTGRES_PASSWORD:-} ]] || { echo 'set POSTGRES_PASSWORD for the first start' >&2 && exit 1; }
    # In a directory beside the cluster's own name: after a crash in the middle, the next start begins again.
    local draft=$PGDATA/draft
    rm -rf "$draft"
    initdb --pgdata "$draft" --username "$USER_NAME" --pwfile <(printf '%s\n' "$POSTGRES_PASSWORD") \
        --auth-local trust --auth-host scram-sha-256 --encoding UTF8 --locale C.UTF-8
    echo 'host all all all scram-sha-256' >>"$draft/pg_hba.conf"
    # On the socket only, so that nobody takes a server without its database for a ready one.
    pg_ctl --pgdata "$draft" --wait --options "-c listen_addresses=''" start
    [[ $DATABASE == postgres ]] ||
        psql --no-psqlrc --quiet --username "$USER_NAME" --dbname postgres --set name="$DATABASE" <<<'CREATE DATABASE :"name"'
    pg_ctl --pgdata "$draft" --wait --mode fast stop
    # The file that marks a cluster comes last.
    find "$draft" -mindepth 1 -maxdepth 1 ! -name PG_VERSION -exec mv -t "$PGDATA" {} +
    mv "$draft/PG_VERSION" "$PGDATA/"
    rmdir "$draft"
    sync
}

if [[ ${1:-} == postgres ]]; then
    [[ -s $PGDATA/PG_VERSION ]] || create_cluster
    exec "$@" -c listen_addresses='*'
fi
exec "$@"
