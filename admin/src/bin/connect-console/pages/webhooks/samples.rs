//! Code that verifies webhooks with a new secret.

use maud::{Markup, html};

/// The code in three languages. A secret consists of characters of base64, so that it cannot end a quotation.
pub(super) fn all(secret: &str) -> Markup {
    let samples = [("Python 3", PYTHON), ("Node 18 or later", NODE), ("PHP 8", PHP)];
    html! {
        h2 { "Verify a webhook" }
        p {
            "Call " code { "verify" } " with the header " code { "X-Connect-Signature" } " and the raw body, before anything parses it. "
            "Then respond with a 2xx within 10 seconds, and ignore an event id that you have seen."
        }
        @for (name, code) in samples {
            h3 { (name) }
            pre role="group" aria-label="Sample" tabindex="0" { code data-copy { (code.replace("{secret}", secret)) } }
        }
    }
}

const PYTHON: &str = r#"import hashlib, hmac, re, time

SECRET = "{secret}"

def verify(header: str, body: bytes) -> bool:
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or abs(time.time() - int(times[0])) > 300:
        return False
    mac = hmac.new(SECRET.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(mac, value) for name, _, value in parts if value.isascii())"#;

const NODE: &str = r#"const { createHmac, timingSafeEqual } = require('node:crypto');

const SECRET = '{secret}';

// body: a Buffer with the bytes as received
function verify(header, body) {
  const parts = header.split(',').map((part) => part.split('='));
  const [t = '', ...others] = parts.filter(([name]) => name === 't').map(([, value]) => value);
  if (others.length > 0 || !/^[0-9]{1,12}$/.test(t) || Math.abs(Date.now() / 1000 - Number(t)) > 300) return false;
  const mac = createHmac('sha256', SECRET).update(`${t}.`).update(body).digest();
  const macs = parts.filter(([name]) => name === 'v1').map(([, hex]) => Buffer.from(hex ?? '', 'hex'));
  return macs.some((sent) => sent.length === mac.length && timingSafeEqual(sent, mac));
}"#;

const PHP: &str = r#"<?php
const SECRET = '{secret}';

// header: $_SERVER['HTTP_X_CONNECT_SIGNATURE'] ?? '', body: file_get_contents('php://input')
function verify(string $header, string $body): bool {
    $parts = array_map(fn ($part) => explode('=', $part, 2) + [1 => ''], explode(',', $header));
    $times = array_values(array_filter($parts, fn ($part) => $part[0] === 't'));
    if (count($times) !== 1 || !preg_match('/^[0-9]{1,12}$/D', $times[0][1]) || abs(time() - (int) $times[0][1]) > 300) {
        return false;
    }
    $mac = hash_hmac('sha256', $times[0][1] . '.' . $body, SECRET);
    $matching = array_filter($parts, fn ($part) => $part[0] === 'v1' && hash_equals($mac, $part[1]));
    return $matching !== [];
}"#;
