//! Signed calls with a new key, ready to run.

use common::model::Scope;
use maud::{Markup, html};

/// What the samples contain. Nothing of it can end a quotation: slugs, prefixes and secrets consist of letters, digits, `-` and
/// `_`, and [`safe_origin`] replaces other origins.
pub(super) struct Sample<'a> {
    pub(super) api_url: &'a str,
    pub(super) slug: &'a str,
    pub(super) prefix: &'a str,
    pub(super) secret: &'a str,
    pub(super) origin: &'a str,
    /// The names of the key's scopes.
    pub(super) scopes: &'a [String],
}

/// The path of the events route.
const EVENTS: &str = "/api/v1/crm/connect/events";

/// Samples of what the key may do: send an event, or else read.
pub(super) fn all(sample: &Sample<'_>) -> Markup {
    let has = |scope: Scope| sample.scopes.iter().any(|name| name == scope.as_str());
    let reads = [(Scope::ClientsRead, "clients"), (Scope::LeadsRead, "leads")];
    if has(Scope::EventsIngest) {
        html! {
            h2 { "Send a first event" }
            p { "Each call signs one event about a made-up contact and prints the result. A second call within the same second is refused as a replay." }
            @for (name, code) in [("curl and openssl", curl(sample)), ("Python 3", python(sample)), ("Node 18 or later", node(sample))] {
                (listing(name, &code))
            }
        }
    } else if let Some((_, records)) = reads.into_iter().find(|(scope, _)| has(*scope)) {
        html! {
            h2 { "Read a first record" }
            p { "The call looks up the " (records) " with the external id sample. A second call within the same second is refused as a replay." }
            (listing("curl and openssl", &look_up(sample, records)))
        }
    } else {
        html! { p { "The page /docs of the API has a sample for each call that the key may make." } }
    }
}

fn listing(name: &str, code: &str) -> Markup {
    html! {
        h3 { (name) }
        pre role="group" aria-label="Sample" tabindex="0" { code data-copy { (code) } }
    }
}

fn look_up(sample: &Sample<'_>, records: &str) -> String {
    let Sample { api_url, slug, prefix, secret, .. } = sample;
    format!(
        r#"KEY='{prefix}'; SECRET='{secret}'; T=$(date +%s); TARGET='/api/v1/crm/connect/{records}?externalId=sample'
MAC=$(printf '%s.GET.%s.' "$T" "$TARGET" | openssl dgst -sha256 -hmac "$SECRET" -hex | sed 's/.*= //')
curl -sS "{api_url}$TARGET" -H "X-Connect-Key: $KEY" -H 'X-Connect-Tenant: {slug}' -H "X-Connect-Signature: t=$T,v2=$MAC"; echo"#
    )
}

/// An origin that can stand in quotation marks in all three languages.
fn safe_origin(origin: &str) -> &str {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ' | ':' | '/');
    if origin.chars().all(is_plain) { origin } else { "partner" }
}

fn curl(sample: &Sample<'_>) -> String {
    let Sample { api_url, slug, prefix, secret, origin, .. } = sample;
    let origin = safe_origin(origin);
    format!(
        r#"KEY='{prefix}'; SECRET='{secret}'; T=$(date +%s)
BODY='{{"events":[{{"specVersion":"1.0","eventId":"sample-'"$T"'","eventType":"contact.identified","occurredAt":"'"$(date -u +%FT%TZ)"'","tenant":"{slug}","origin":"{origin}","actor":{{"type":"contact","email":"sample@example.com","name":"Sample"}}}}]}}'
MAC=$(printf '%s.%s' "$T" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -hex | sed 's/.*= //')
curl -sS '{api_url}{EVENTS}' -H "X-Connect-Key: $KEY" -H 'X-Connect-Tenant: {slug}' \
  -H "X-Connect-Signature: t=$T,v1=$MAC" -H 'Content-Type: application/json' --data-binary "$BODY"; echo"#
    )
}

fn python(sample: &Sample<'_>) -> String {
    let Sample { api_url, slug, prefix, secret, origin, .. } = sample;
    let origin = safe_origin(origin);
    format!(
        r#"import datetime, hashlib, hmac, json, time, urllib.request

key, secret, t = "{prefix}", "{secret}", str(int(time.time()))
body = json.dumps({{"events": [{{
    "specVersion": "1.0", "eventId": f"sample-{{t}}", "eventType": "contact.identified",
    "occurredAt": datetime.datetime.now(datetime.timezone.utc).isoformat(),
    "tenant": "{slug}", "origin": "{origin}",
    "actor": {{"type": "contact", "email": "sample@example.com", "name": "Sample"}},
}}]}}).encode()
mac = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
request = urllib.request.Request("{api_url}{EVENTS}", data=body, method="POST", headers={{
    "X-Connect-Key": key, "X-Connect-Tenant": "{slug}",
    "X-Connect-Signature": f"t={{t}},v1={{mac}}", "Content-Type": "application/json"}})
print(urllib.request.urlopen(request).read().decode())"#
    )
}

fn node(sample: &Sample<'_>) -> String {
    let Sample { api_url, slug, prefix, secret, origin, .. } = sample;
    let origin = safe_origin(origin);
    format!(
        r#"const {{ createHmac }} = require('node:crypto');

const key = '{prefix}', secret = '{secret}', t = Math.floor(Date.now() / 1000);
const body = JSON.stringify({{ events: [{{
  specVersion: '1.0', eventId: `sample-${{t}}`, eventType: 'contact.identified',
  occurredAt: new Date().toISOString(), tenant: '{slug}', origin: '{origin}',
  actor: {{ type: 'contact', email: 'sample@example.com', name: 'Sample' }},
}}] }});
const mac = createHmac('sha256', secret).update(`${{t}}.${{body}}`).digest('hex');
fetch('{api_url}{EVENTS}', {{ method: 'POST', body, headers: {{
  'X-Connect-Key': key, 'X-Connect-Tenant': '{slug}',
  'X-Connect-Signature': `t=${{t}},v1=${{mac}}`, 'Content-Type': 'application/json' }} }})
  .then((response) => response.text()).then(console.log);"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_cannot_leave_its_quotation() {
        assert_eq!(safe_origin("partner-site.example"), "partner-site.example");
        for hostile in ["'; rm -rf /; '", "\"", "`id`", "$(id)", "\\"] {
            assert_eq!(safe_origin(hostile), "partner", "{hostile}");
        }
    }
}
