#!/usr/bin/env python3
"""Signs a batch of events and sends it: send-batch.py ENQUIRY

ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids contain it: sent again, they are
`duplicate` and have no second effect. With CONNECT_DRY_RUN=true nothing is written, and the results are those that the
batch would have. Prints the results. Needs nothing but Python 3.9 or newer.
"""

import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"]
URL, TENANT, KEY, SECRET = [os.environ.get(name, "") for name in SETTINGS]
DRY_RUN = os.environ.get("CONNECT_DRY_RUN", "")
ATTEMPTS = 5


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
    """One attempt: status, headers, body of the response. Status 0 and the reason when there was none."""
    # Signs exactly the bytes that are sent: a body that is serialized again after signing does not verify.
    now = str(int(time.time()))
    mac = hmac.new(SECRET.encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    url = f"{URL.rstrip('/')}/api/v1/crm/connect/events"
    request = urllib.request.Request(url, data=body, method="POST", headers={
        "Content-Type": "application/json",
        "X-Connect-Key": KEY,
        "X-Connect-Tenant": TENANT,
        "X-Connect-Signature": f"t={now},v1={mac}",
        **({"Connect-Dry-Run": DRY_RUN} if DRY_RUN else {}),
    })
    try:
        try:
            response = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as refused:
            response = refused
        with response:
            return response.status, response.headers, response.read().decode()
    except (OSError, http.client.HTTPException, ValueError) as lost:
        return 0, {}, str(lost)


def wait(headers):
    """Seconds until the next attempt: what the response asks for, else one. Never the same second: that would be the same
    signature."""
    asked = headers.get("Retry-After") or ""
    return max(1, int(asked)) if re.fullmatch("[0-9]+", asked) else 1


def main():
    enquiry = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = [] if re.fullmatch("[A-Za-z0-9-]{1,80}", enquiry) else ["ENQUIRY (letters, digits and dashes, at most 80)"]
    wrong += [name for name in SETTINGS if not os.environ.get(name)]
    if wrong:
        print("usage: send-batch.py ENQUIRY, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set;",
              "missing or wrong:", *wrong, file=sys.stderr)
        sys.exit(2)

    body = json.dumps({"events": [
        event(f"{enquiry}-contact", "contact.identified"),
        event(f"{enquiry}-enquiry", "enquiry.submitted", externalLeadId=enquiry, destination="Kerala", paxCount=2),
    ]}).encode()
    for attempt in range(1, ATTEMPTS + 1):
        status, headers, response = send(body)
        if status not in (0, 503) or attempt == ATTEMPTS:
            break
        # The events may have been applied or not. Sending them again is safe either way; each attempt is signed again.
        time.sleep(wait(headers))
    if status == 0:
        sys.exit(f"no response: {response}")
    if status != 200:
        sys.exit(f"refused with {status}, X-Request-Id {headers.get('X-Request-Id')}: {response}")
    print(response)


if __name__ == "__main__":
    main()
