//! How to make a signature, in four languages. A test runs each of them.

use maud::{Markup, html};

const SHELL: &str = r#"# Usage: SECRET=... sign METHOD PATH < body
sign() {
  T=$(date +%s)
  case $2 in /api/v1/crm/connect/events) V=v1 HEAD="$T." ;; *) V=v2 HEAD="$T.$1.$2." ;; esac
  MAC=$({ printf %s "$HEAD"; cat; } | openssl dgst -sha256 -hmac "$SECRET" -hex | sed 's/.*= //')
  echo "X-Connect-Signature: t=$T,$V=$MAC"
}"#;

const PYTHON: &str = r#"import hashlib, hmac, time

def signature(secret: str, method: str, path: str, body: bytes) -> str:
    t = str(int(time.time()))
    is_events = path == "/api/v1/crm/connect/events"
    head = f"{t}." if is_events else f"{t}.{method}.{path}."
    mac = hmac.new(secret.encode(), head.encode() + body, hashlib.sha256).hexdigest()
    return f"t={t},{'v1' if is_events else 'v2'}={mac}""#;

const NODE: &str = r#"const { createHmac } = require('node:crypto');

function signature(secret, method, path, body) {
  const t = Math.floor(Date.now() / 1000);
  const isEvents = path === '/api/v1/crm/connect/events';
  const head = isEvents ? `${t}.` : `${t}.${method}.${path}.`;
  const mac = createHmac('sha256', secret).update(head).update(body).digest('hex');
  return `t=${t},${isEvents ? 'v1' : 'v2'}=${mac}`;
}"#;

const RUST: &str = include_str!("sign.rs");

pub(super) fn all() -> Markup {
    html! {
        h2 { "Make a signature" }
        p { "Sign the bytes that are sent: serialize the body once, sign the result, and send the same result." }
        @for (name, code) in [("Shell and openssl", SHELL), ("Python 3", PYTHON), ("Node 18 or later", NODE), ("Rust (hmac, sha2, hex)", RUST.trim_end())] {
            h3 { (name) }
            pre { code data-copy { (code) } }
        }
    }
}
