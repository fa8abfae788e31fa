#!/usr/bin/env bash
# Signs a batch of events and sends it: send-batch.sh ENQUIRY
#
# ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids contain it: sent again, they
# are `duplicate` and have no second effect. With CONNECT_DRY_RUN=true nothing is written, and the results are those that
# the batch would have. Prints the results. Needs bash 3.2 or newer, curl and openssl.

set -euo pipefail
export LC_ALL=C

wrong=
[[ ${1-} =~ ^[A-Za-z0-9-]{1,80}$ ]] || wrong+=' ENQUIRY (letters, digits and dashes, at most 80)'
for name in CONNECT_URL CONNECT_TENANT CONNECT_KEY CONNECT_SECRET; do
    [[ -n ${!name-} ]] || wrong+=" $name"
done
# Values are inserted into the JSON below without escaping.
[[ ${CONNECT_TENANT-} != *[!A-Za-z0-9_-]* ]] || wrong+=' CONNECT_TENANT'
if [[ -n $wrong ]]; then
    echo "usage: send-batch.sh ENQUIRY, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set; missing or wrong:$wrong" >&2
    exit 2
fi

enquiry=$1
now=$(date -u +%FT%TZ)
actor='{"type":"contact","email":"mira.sen@example.com","name":"Mira Sen"}'
start='"specVersion":"1.0","tenant":"'$CONNECT_TENANT'","origin":"example-site","occurredAt":"'$now'","actor":'$actor
body='{"events":[
  {'$start',"eventId":"'$enquiry'-contact","eventType":"contact.identified"},
  {'$start',"eventId":"'$enquiry'-enquiry","eventType":"enquiry.submitted",
   "payload":{"externalLeadId":"'$enquiry'","destination":"Kerala","paxCount":2}}
]}'

dry_run=()
[[ -z ${CONNECT_DRY_RUN-} ]] || dry_run=(--header "Connect-Dry-Run: $CONNECT_DRY_RUN")

response=$(mktemp) headers=$(mktemp) failure=$(mktemp)
trap 'rm -f "$response" "$headers" "$failure"' EXIT

# One attempt: sets `status`, 000 when there was no response.
send() {
    : >"$headers"
    # Signs exactly the bytes that are sent. (openssl takes the secret as an argument, which others on this machine can see
    # in the list of processes.)
    local time mac
    time=$(date +%s)
    mac=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac "$CONNECT_SECRET" -r | cut -d ' ' -f 1)
    status=$(curl --silent --show-error --max-time 30 --output "$response" --dump-header "$headers" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $CONNECT_KEY" \
        --header "X-Connect-Tenant: $CONNECT_TENANT" \
        --header "X-Connect-Signature: t=$time,v1=$mac" \
        ${dry_run[@]+"${dry_run[@]}"} \
        --data-binary "$body" "${CONNECT_URL%/}/api/v1/crm/connect/events" 2>"$failure") || status=000
}

# A header of the response, by its name in lower case.
header() { tr -d '\r' <"$headers" | awk -F ': *' -v name="$1" 'tolower($1) == name { print $2 }'; }

for attempt in 1 2 3 4 5; do
    send
    # 503 or no response: the events may have been applied or not. Sending them again is safe either way; a signature is good
    # for one request, so each attempt is signed again.
    [[ ($status == 503 || $status == 000) && $attempt != 5 ]] || break
    wait=$(header retry-after)
    [[ $wait =~ ^[1-9][0-9]*$ ]] || wait=1
    sleep "$wait"
done

case $status in
200) cat "$response" && echo ;;
000)
    echo "no response: $(cat "$failure")" >&2
    exit 1
    ;;
*)
    echo "refused with $status, X-Request-Id $(header x-request-id): $(cat "$response")" >&2
    exit 1
    ;;
esac
