#!/usr/bin/env bash
# Verifies a webhook: verify-webhook.sh SIGNATURE [NOW] <BODY
#
# SIGNATURE is the header X-Connect-Signature and BODY the body, byte by byte, as received; NOW is the clock, in seconds
# since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs bash 3.2 or newer and openssl.

set -euo pipefail
export LC_ALL=C

wrong=
(($# > 0)) || wrong+=' SIGNATURE'
now=${2-$(date +%s)}
[[ $now =~ ^[0-9]{1,12}$ ]] || wrong+=' NOW'
[[ -n ${CONNECT_WEBHOOK_SECRET-} ]] || wrong+=' CONNECT_WEBHOOK_SECRET'
if [[ -n $wrong ]]; then
    echo "usage: verify-webhook.sh SIGNATURE [NOW] <BODY, with CONNECT_WEBHOOK_SECRET set; missing or wrong:$wrong" >&2
    exit 2
fi

refuse() {
    echo "refused: $1" >&2
    exit 1
}

# While the secret is rotated there are two `v1`. Unknown elements are ignored.
time='' times=0 macs=''
IFS=, read -r -d '' -a elements <<<"$1," || true
for element in "${elements[@]}"; do
    case $element in
    t=*) time=${element#t=} times=$((times + 1)) ;;
    v1=*) [[ ${element#v1=} =~ ^[0-9A-Fa-f]{64}$ ]] && macs+=" ${element#v1=}" ;;
    esac
done
[[ $times == 1 && $time =~ ^[0-9]{1,12}$ ]] || refuse 'no time'
age=$((10#$now - 10#$time))
((age >= -300 && age <= 300)) || refuse 'signed too long ago, or the clock is wrong'

# A shell variable cannot hold every byte, so the body is piped.
expected=$({ printf '%s.' "$time" && cat; } | openssl dgst -sha256 -hmac "$CONNECT_WEBHOOK_SECRET" -r | cut -d ' ' -f 1)

# A comparison of texts ends at the first difference, so its duration tells where that is. Both texts are therefore
# hashed with a random key first.
key=$(openssl rand -hex 32)
blind() { printf '%s' "$1" | openssl dgst -sha256 -hmac "$key" -r; }
for mac in $macs; do
    if [[ $(blind "$(printf '%s' "$mac" | tr A-F a-f)") == "$(blind "$expected")" ]]; then
        # Now the body may be read. The same eventId can come more than once.
        echo verified
        exit 0
    fi
done
refuse 'signed with another secret, or changed on its way'
