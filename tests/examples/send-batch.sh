#!/usr/bin/env bash
# Signs a batch of events and sends it: send-batch.sh ENQUIRY
#
# ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids are made of it: sent again, they
# are `duplicate` and have no second effect. Prints the results. Needs curl and openssl.

set -euo pipefail

: "${CONNECT_URL:?where Connect is, such as https://connect.example.com}" "${CONNECT_TENANT:?the slug of the agency}"
: "${CONNECT_KEY:?the prefix of the API key}" "${CONNECT_SECRET:?its secret}"
enquiry=${1:?your id of the enquiry}

now=$(date -u +%FT%TZ)
actor='{"type":"contact","email":"mira.sen@example.com","name":"Mira Sen"}'
start='"specVersion":"1.0","tenant":"'$CONNECT_TENANT'","origin":"example-site","occurredAt":"'$now'","actor":'$actor
body='{"events":[
  {'$start',"eventId":"'$enquiry'-contact","eventType":"contact.identified"},
  {'$start',"eventId":"'$enquiry'-enquiry","eventType":"enquiry.submitted",
   "payload":{"externalLeadId":"'$enquiry'","destination":"Kerala","paxCount":2}}
]}'

answer=$(mktemp) headers=$(mktemp)
trap 'rm -f "$answer" "$headers"' EXIT

for attempt in 1 2 3 4 5; do
    # Over the very bytes that are sent. A signature is good for one request: each attempt is signed anew.
    # (openssl takes the secret as an argument, which others on this machine can see in the list of processes.)
    time=$(date +%s)
    mac=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac "$CONNECT_SECRET" -r | cut -d ' ' -f 1)
    status=$(curl --silent --show-error --max-time 30 --output "$answer" --dump-header "$headers" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $CONNECT_KEY" \
        --header "X-Connect-Tenant: $CONNECT_TENANT" \
        --header "X-Connect-Signature: t=$time,v1=$mac" \
        --data-binary "$body" "$CONNECT_URL/api/v1/crm/connect/events")
    # 503: perhaps it was taken, perhaps not. The same events again are safe either way.
    [[ $status == 503 && $attempt != 5 ]] || break
    sleep "$(sed -n 's/^retry-after: *\([0-9]*\).*/\1/Ip' "$headers")"
done

if [[ $status != 200 ]]; then
    echo "refused with $status: $(cat "$answer")" >&2
    exit 1
fi
cat "$answer"
echo
