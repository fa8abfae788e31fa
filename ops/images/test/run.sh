#!/usr/bin/env bash
# Starts everything of compose.yaml in containers and tests it: `make test-containers`. Takes five minutes once the images are built,
# and 40 minutes at most.
#
#   1. builds the images (ops/images/build.sh); CONNECT_PROGRAMS names a directory of programs to take instead of compiling them
#   2. checks the image of the programs: size, user, files, and the list of its parts
#   3. `up`: an enquiry is confirmed, and its webhook arrives
#   4. two workers share the work
#   5. a link of `connectctl console login` signs in to the settings area
#   6. the profile `monitoring`: Prometheus scrapes all programs, and the dashboard has data; Grafana where its image can be had
#   7. under load, ends each container in turn, once as a crash and once by `docker kill`
#   8. checks that every confirmed enquiry exists once, and that every webhook was delivered
#   9. stops everything: the programs drain and exit with 0
#
# Containers, volumes and networks are those of a Compose project of its own, connect-test-PID, which is removed at the end.
# Needs Docker, Compose, Python and jq; building the images without a registry needs root.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
HERE=$ROOT/ops/images/test
STEPS=9
# Longest waits, in seconds.
TOTAL_TIMEOUT=2000
CLEAN_UP_TIMEOUT=400
BUILD_TIMEOUT=1800
UP_TIMEOUT=240
RECOVERY_TIMEOUT=120
SETTLE_TIMEOUT=180
# The image's largest size, in MiB.
MOST_SIZE=80

if [[ -z ${CONNECT_TEST_BOUNDED:-} ]]; then
    # On SIGTERM the script removes what it has started, once the command that it waits for has ended. Each has a limit.
    CONNECT_TEST_BOUNDED=1 exec timeout --foreground --kill-after="$CLEAN_UP_TIMEOUT" "$TOTAL_TIMEOUT" "$0" "$@"
fi

# shellcheck source-path=SCRIPTDIR
source "$HERE/project.sh"
# shellcheck source-path=SCRIPTDIR
source "$HERE/faults.sh"

main() {
    prepare
    step 'building the images'
    build_images
    step 'checking the image of the programs'
    check_image
    step 'starting everything, with a demo tenant and a receiver of webhooks'
    start_product
    show_first_webhook
    step 'running two workers'
    scale_workers
    step 'signing in to the settings area'
    check_console
    step 'monitoring'
    start_load
    check_monitoring
    step 'ending each container in turn, under load'
    end_each_container
    step 'comparing what was confirmed with what is stored and delivered'
    stop_load
    check_enquiries
    check_webhooks
    step 'stopping everything'
    check_stop
    say "all passed in $SECONDS s"
}

# ---- images ----

build_images() {
    local line
    while read -r line; do export "${line?}"; done < <(timeout --foreground "$BUILD_TIMEOUT" "$ROOT/ops/images/build.sh" || echo FAILED=yes)
    [[ -z ${FAILED:-} ]] || fail 'the images could not be built'
}

# in_image COMMAND...: runs it in the image as restricted as compose.yaml does.
in_image() {
    docker run --rm --name "$PROJECT-check" --network none --read-only --cap-drop ALL --security-opt no-new-privileges connect:local "$@"
}

check_image() {
    local size user program sbom=$WORK/sbom.json
    size=$(($(docker image inspect --format '{{.Size}}' connect:local) >> 20))
    ((size <= MOST_SIZE)) || fail "the image has $size MiB, expected $MOST_SIZE at most"
    user=$(docker image inspect --format '{{.Config.User}}' connect:local)
    [[ $user == 10001:10001 ]] || fail "the image runs as $user"
    for program in connect-ingest connect-worker connect-dispatcher connect-console connect-receiver connectctl; do
        in_image "$program" --version >/dev/null || fail "$program does not start in the image"
    done
    # Nothing can change user, and the programs' user owns nothing.
    local found
    found=$(in_image busybox find / -xdev ! -path '/proc/*' \( -user 10001 -o -type f -perm -4000 -o -type f -perm -2000 \) 2>/dev/null) || true
    [[ -z $found ]] || fail "files with special rights in the image: $found"
    in_image busybox cat /usr/share/connect/sbom.cdx.json >"$sbom"
    jq --exit-status '[.components[].purl] | (any(startswith("pkg:cargo/tokio@"))) and (any(startswith("pkg:deb/debian/libc6@")))' \
        "$sbom" >/dev/null || fail 'the list of parts lacks tokio or libc6'
    say "connect:local: $size MiB, user $user, $(jq '.components | length' "$sbom") parts in its CycloneDX list"
}

# ---- the product ----

start_product() {
    up "$UP_TIMEOUT"
    say "healthy after ${SINCE} s: $(running)"
    prepare_demo
}

prepare_demo() {
    ctl tenant create --slug demo --name 'Demo Travel' --json >/dev/null
    ctl member add --tenant demo --email asha@demo.example --name 'Asha Rao' --json >/dev/null
    ctl key create --tenant demo --name 'Demo site' --origin demo-site --scopes events:ingest --json >"$WORK/key.json"
    local made
    made=$(ctl subscription create --tenant demo --url http://127.0.0.1:9200/webhooks --json)
    RECEIVER_SECRET=$(jq -r .secret <<<"$made")
    export RECEIVER_SECRET
    compose --profile receiver up -d receiver
}

show_first_webhook() {
    start_load
    wait_until "$RECOVERY_TIMEOUT" 'an enquiry is confirmed' confirmed_since 0
    wait_until "$RECOVERY_TIMEOUT" 'a webhook arrives' webhook_arrived
    stop_load
    say 'the first webhook, as the receiver saw it:' "    $(receiver_log | grep --max-count 1 ': verified')"
}

webhook_arrived() { receiver_log | grep --quiet 'lead.assigned for demo, delivery .*: verified'; }

scale_workers() {
    local name before
    up "$UP_TIMEOUT" --scale worker=2 worker
    before=$(confirmed)
    start_load
    wait_until "$RECOVERY_TIMEOUT" 'both workers apply events' both_workers_apply
    stop_load
    for name in $(containers worker); do
        say "$name has applied $(units_applied "$name") units of work"
    done
    (($(confirmed) > before)) || fail 'no enquiry was confirmed with two workers'
}

units_applied() {
    docker exec "$1" busybox wget -q -O - http://127.0.0.1:9100/metrics |
        awk '/^connect_apply_duration_seconds_count{.*queue="events"/ { n += $NF } END { print n + 0 }'
}

both_workers_apply() {
    local name count=0
    for name in $(containers worker); do
        count=$((count + 1))
        (($(units_applied "$name") > 0)) || return 1
    done
    ((count == 2))
}

check_console() {
    local link page=$WORK/console.html
    link=$(ctl console login --role operator --json | jq -r .url)
    python3 "$HERE/console.py" "$link" >"$page" || fail 'the link does not sign in'
    grep --quiet 'Demo Travel' "$page" || fail "the settings area does not show the demo tenant, see $page"
    say "the settings area at ${link%%/sign-in*} shows the demo tenant"
}

# ---- results ----

check_enquiries() {
    local sent stored
    sort -u <(cut -d ' ' -f 2 "$WORK/confirmed") >"$WORK/confirmed.ids"
    sql 'SELECT event_id FROM event_ledger' | sort >"$WORK/stored.ids"
    sent=$(wc -l <"$WORK/confirmed.ids")
    comm -23 "$WORK/confirmed.ids" "$WORK/stored.ids" >"$WORK/lost.ids"
    [[ ! -s $WORK/lost.ids ]] || fail "$(wc -l <"$WORK/lost.ids") confirmed enquiries are not stored, see $WORK/lost.ids"
    stored=$(sql 'SELECT count(*) || $$ $$ || count(DISTINCT external_id) FROM leads')
    # The load generator repeats each enquiry until it is confirmed, so there are as many as it has confirmed.
    [[ $stored == "$sent $sent" ]] || fail "confirmed are $sent enquiries, stored and different $stored"
    say "each of the $sent confirmed enquiries is stored exactly once"
}

check_webhooks() {
    wait_until "$SETTLE_TIMEOUT" 'every webhook is delivered' all_delivered
    sql 'SELECT delivery_id FROM deliveries' | sort >"$WORK/deliveries.ids"
    receiver_log | sed -n 's/.* delivery \([0-9a-f-]*\): verified$/\1/p' | sort -u >"$WORK/received.ids"
    [[ $(sql 'SELECT count(*) FROM outbox') -ge $(sql 'SELECT count(*) FROM leads') ]] || fail 'some enquiries have caused no outbound event'
    comm -23 "$WORK/deliveries.ids" "$WORK/received.ids" >"$WORK/missing.ids"
    [[ ! -s $WORK/missing.ids ]] || fail "$(wc -l <"$WORK/missing.ids") deliveries never reached the receiver, see $WORK/missing.ids"
    if receiver_log | grep --quiet 'NOT VERIFIED'; then fail 'the receiver got a webhook whose signature does not verify'; fi
    say "each of the $(wc -l <"$WORK/deliveries.ids") webhooks was delivered and verified"
}

all_delivered() {
    [[ $(sql "SELECT (SELECT count(*) FROM outbox_pending) + (SELECT count(*) FROM deliveries WHERE state <> 'delivered')") == 0 ]]
}

check_monitoring() {
    local services=(prometheus) grafana=()
    if docker image inspect "${GRAFANA_IMAGE:-grafana/grafana:11.4.0}" >/dev/null 2>&1 ||
        timeout 60 docker pull --quiet "${GRAFANA_IMAGE:-grafana/grafana:11.4.0}" >/dev/null 2>&1; then
        services+=(grafana)
        grafana=("http://127.0.0.1:$GRAFANA_PORT")
    else
        say 'skipped: Grafana, whose image cannot be pulled here and which Debian does not package'
    fi
    compose --profile monitoring up -d --no-deps "${services[@]}"
    python3 "$HERE/monitoring.py" "http://127.0.0.1:$PROMETHEUS_PORT" 2 "${grafana[@]}"
}

# ---- the end ----

check_stop() {
    local name status
    compose stop
    for name in $(containers "${PROGRAMS[@]}" "${SERVERS[@]}"); do
        status=$(docker inspect --format '{{.State.ExitCode}}{{if .State.OOMKilled}} (out of memory){{end}}' "$name")
        [[ $status == 0 ]] || fail "$name ended with exit code $status"
    done
    say "all exited with 0: $(containers "${PROGRAMS[@]}" "${SERVERS[@]}" | tr '\n' ' ')"
}

main
