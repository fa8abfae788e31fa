import hashlib, hmac, re, time

SECRET = "{secret}"

def verify(header: str, body: bytes) -> bool:
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or abs(time.time() - int(times[0])) > 300:
        return False
    mac = hmac.new(SECRET.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(mac, value) for name, _, value in parts if value.isascii())
