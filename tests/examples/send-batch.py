#!/usr/bin/env python3
"""Signs a batch of events and sends it: send-batch.py ENQUIRY

ENQUIRY is your own id of the enquiry. The events' ids are made of it: sent again, they are `duplicate` and have no second
effect. Prints the results. Needs nothing but Python.
"""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

URL, TENANT = os.environ["CONNECT_URL"], os.environ["CONNECT_TENANT"]
KEY, SECRET = os.environ["CONNECT_KEY"], os.environ["CONNECT_SECRET"]


def event(event_id, event_type, **payload):
    return {
        "specVersion": "1.0",
        "eventId": event_id,
        "eventType": event_type,
        "occurredAt": datetime.now(timezone.utc).isoformat(),
        "tenant": TENANT,
        "origin": "example-site",
        "actor": {"type": "contact", "email": "mira.sen@example.com", "name": "Mira Sen"},
        "payload": payload,
    }


def send(body):
    """One attempt: status, headers, body of the answer."""
    # Over the very bytes that are sent: what is serialised again after signing doesn't verify.
    now = str(int(time.time()))
    mac = hmac.new(SECRET.encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(f"{URL}/api/v1/crm/connect/events", data=body, method="POST", headers={
        "Content-Type": "application/json",
        "X-Connect-Key": KEY,
        "X-Connect-Tenant": TENANT,
        "X-Connect-Signature": f"t={now},v1={mac}",
    })
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def main():
    enquiry = sys.argv[1]
    body = json.dumps({"events": [
        event(f"{enquiry}-contact", "contact.identified"),
        event(f"{enquiry}-enquiry", "enquiry.submitted", externalLeadId=enquiry, destination="Kerala", paxCount=2),
    ]}).encode()
    for _ in range(5):
        status, headers, answer = send(body)
        if status != 503:
            break
        # Perhaps it was taken, perhaps not. The same events again are safe either way; each attempt is signed anew.
        time.sleep(int(headers["Retry-After"]))
    if status != 200:
        sys.exit(f"refused with {status}: {answer}")
    print(answer)


if __name__ == "__main__":
    main()
