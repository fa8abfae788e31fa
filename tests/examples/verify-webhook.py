#!/usr/bin/env python3
"""Verifies a webhook: verify-webhook.py SIGNATURE [NOW] <BODY

SIGNATURE is the header X-Connect-Signature and BODY the body, byte by byte, as received; NOW is the clock, in seconds
since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs nothing but Python 3.9 or newer.
"""

import hashlib
import hmac
import os
import re
import sys
import time

TOLERANCE = 300  # seconds, both ways


def refusal(secret: bytes, signature: str, body: bytes, now: int):
    """Why the webhook must be refused; None when it is authentic."""
    # While the secret is rotated there are two `v1`. Unknown elements are ignored.
    elements = [element.split("=", 1) for element in signature.split(",") if "=" in element]
    times = [value for name, value in elements if name == "t"]
    macs = [value for name, value in elements if name == "v1" and re.fullmatch("[0-9A-Fa-f]{64}", value)]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]):
        return "no time"
    if abs(now - int(times[0])) > TOLERANCE:
        return "signed too long ago, or the clock is wrong"
    expected = hmac.new(secret, times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # In constant time, which does not reveal where they differ.
    if not any(hmac.compare_digest(expected, mac.lower()) for mac in macs):
        return "signed with another secret, or changed on its way"
    return None


def main():
    secret = os.fsencode(os.environ.get("CONNECT_WEBHOOK_SECRET", ""))
    now = sys.argv[2] if len(sys.argv) > 2 else str(int(time.time()))
    checks = {
        "SIGNATURE": len(sys.argv) > 1,
        "NOW": re.fullmatch("[0-9]{1,12}", now),
        "CONNECT_WEBHOOK_SECRET": secret,
    }
    wrong = [name for name, is_right in checks.items() if not is_right]
    if wrong:
        print("usage: verify-webhook.py SIGNATURE [NOW] <BODY, with CONNECT_WEBHOOK_SECRET set; missing or wrong:",
              *wrong, file=sys.stderr)
        sys.exit(2)

    why = refusal(secret, sys.argv[1], sys.stdin.buffer.read(), int(now))
    if why:
        sys.exit(f"refused: {why}")
    # Now the body may be read. The same eventId can come more than once.
    print("verified")


if __name__ == "__main__":
    main()
