#!/usr/bin/env python3
"""Verifies a webhook: verify-webhook.py SIGNATURE [NOW] <BODY

SIGNATURE is the header X-Connect-Signature and BODY the body, byte by byte, as they came; NOW is the clock, in seconds
since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs nothing but Python.
"""

import hashlib
import hmac
import os
import re
import sys
import time

TOLERANCE = 300  # seconds, both ways


def refusal(secret: bytes, signature: str, body: bytes, now: float):
    """Why the webhook isn't to be believed; None when it is."""
    # While the secret is rotated there are two `v1`. What else there may be one day is passed over.
    elements = [element.partition("=") for element in signature.split(",")]
    times = [value for name, _, value in elements if name == "t"]
    macs = [value.lower() for name, _, value in elements if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]):
        return "no time"
    if abs(now - int(times[0])) > TOLERANCE:
        return "signed too long ago, or the clock is wrong"
    expected = hmac.new(secret, times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # In a time that doesn't depend on where they differ.
    if not any(hmac.compare_digest(expected.encode(), mac.encode()) for mac in macs):
        return "signed with another secret, or changed on its way"
    return None


def main():
    secret, signature = os.environ["CONNECT_WEBHOOK_SECRET"].encode(), sys.argv[1]
    now = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    why = refusal(secret, signature, sys.stdin.buffer.read(), now)
    if why:
        sys.exit(f"refused: {why}")
    # Now the body may be read. The same eventId can come more than once.
    print("verified")


if __name__ == "__main__":
    main()
