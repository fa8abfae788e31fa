"""What Schemathesis must know of Connect: how requests are signed, whose key it is, which codes are assigned."""

import hashlib
import hmac
import itertools
import json
import os
import re
import threading
import time
import uuid
from collections import Counter
from urllib.parse import urlsplit

import schemathesis
from hypothesis import strategies as st
from requests.auth import AuthBase

KEY = os.environ["CONNECT_KEY"]
SECRET = os.environ["CONNECT_SECRET"].encode()
TENANT = os.environ["CONNECT_TENANT"]
# Records that exist, by the name of the path's parameter.
KNOWN = {"clientId": os.environ["CLIENT_ID"], "leadId": os.environ["LEAD_ID"]}
# Where the responses are counted.
RESPONSES = os.environ["CONNECT_RESPONSES"]

# A signature may be as old as that; each second is room for one more equal request.
OLDEST = 250

# Formats that JSON Schema doesn't know: some of the codes that are assigned.
schemathesis.openapi.format("iso-4217", st.sampled_from(["EUR", "INR", "JPY", "USD", "XAU"]))
schemathesis.openapi.format("iso-3166-1-alpha-2", st.sampled_from(["", "DE", "IN", "NA", "TV", "US"]))


# What stands in If-Match, as the description has it.
ETAGS = re.compile(r'\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*')


class Signed(AuthBase):
    """Signs a request as it is about to be sent: the target and the bytes that go out."""

    def __init__(self):
        self.used = set()
        self.lock = threading.Lock()

    def __call__(self, request):
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        target = request.path_url.encode()
        if urlsplit(request.url).path.endswith("/connect/events"):
            scheme, signed = "v1", b".%s" % body
        else:
            scheme, signed = "v2", b".%s.%s.%s" % (request.method.encode(), target, body)
        request.headers["X-Connect-Key"] = KEY
        request.headers["X-Connect-Tenant"] = TENANT
        request.headers["X-Connect-Signature"] = self.signature(scheme, signed)
        return request

    def signature(self, scheme, signed):
        """The latest one that wasn't used yet: the same request may be sent again, the same signature may not."""
        now = int(time.time())
        for t in range(now, now - OLDEST, -1):
            mac = hmac.new(SECRET, b"%d%s" % (t, signed), hashlib.sha256).hexdigest()
            with self.lock:
                if mac not in self.used:
                    self.used.add(mac)
                    return f"t={t},{scheme}={mac}"
        raise RuntimeError("the same request was sent too often")


SIGNED = Signed()


turns = itertools.count()


def mostly():
    """Three times out of four."""
    return next(turns) % 4 != 0


@schemathesis.hook
def before_call(context, case, kwargs):
    kwargs["auth"] = SIGNED
    address_known_records(case)
    vary_conditions(case)
    if case.operation.path.endswith("/events"):
        send_own_events(case.body)
    if isinstance(case.body, (dict, list)):
        case.body = as_read(case.body)


def address_known_records(case):
    """Most of the ids that could be a record's become one's; the others find nothing."""
    for name, value in (case.path_parameters or {}).items():
        if is_uuid(value) and mostly():
            case.path_parameters[name] = KNOWN[name]


def is_uuid(value):
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def vary_conditions(case):
    """The examples' key would be a replay, and their version stale, nearly always."""
    headers = case.headers or {}
    if str(headers.get("Idempotency-Key")).endswith("-4711") and mostly():
        headers["Idempotency-Key"] = f"order-{next(turns)}"
    if headers.get("If-Match") == '"2026-05-01T10:00:00.000Z"' and mostly():
        headers["If-Match"] = "*"
    if is_meant_to_be_right(case) and not ETAGS.fullmatch(headers.get("If-Match", "*")):
        headers["If-Match"] = "*"


def is_meant_to_be_right(case):
    """Of a text with a pattern and a length, what is right by length alone is taken for right."""
    return case.meta is not None and case.meta.generation.mode.is_positive


def send_own_events(body):
    """Which tenant is right depends on the key, so no schema says it."""
    events = body.get("events") if isinstance(body, dict) else None
    for event in events if isinstance(events, list) else []:
        tenant = event.get("tenant") if isinstance(event, dict) else None
        if isinstance(tenant, str) and tenant.strip() and len(tenant) <= 100:
            event["tenant"] = TENANT


def as_read(value):
    """What is one to JSON Schema but not to Connect: 2.0 is no whole number, names have no NUL, a journey ends after it
    began."""
    if isinstance(value, list):
        return [as_read(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if not isinstance(value, dict):
        return value
    value = {name.replace("\0", ""): as_read(item) for name, item in value.items()}
    days = [value.get("startDate"), value.get("endDate")]
    if all(isinstance(day, str) and len(day) == 10 for day in days):
        value["startDate"], value["endDate"] = sorted(days)
    return value


responses = {}
responses_lock = threading.Lock()


@schemathesis.hook
def after_call(context, case, response):
    with responses_lock:
        responses.setdefault(case.operation.label, Counter())[str(response.status_code)] += 1
        with open(RESPONSES, "w", encoding="utf-8") as file:
            json.dump(responses, file, indent=1)
