import hashlib, hmac, time

def signature(secret: str, method: str, path: str, body: bytes) -> str:
    t = str(int(time.time()))
    is_events = path == "/api/v1/crm/connect/events"
    head = f"{t}." if is_events else f"{t}.{method}.{path}."
    mac = hmac.new(secret.encode(), head.encode() + body, hashlib.sha256).hexdigest()
    return f"t={t},{'v1' if is_events else 'v2'}={mac}"
