//! API keys in the browser: create, use, change, rotate, revoke.

use super::{ConsoleWorld, Visitor, between, body, sample};
use tests::{ApiKey, HttpResponse, MAX_WAIT, World, batch, event, eventually, until_equal};

const KEYS: &str = "/agencies/acme/keys";

/// Waits until a signed batch gets this status. Running programs follow a change of a key within a second.
pub(super) async fn until_status(world: &World, key: &ApiKey, status: u16) {
    let events = || batch(&[event("contact.identified").email("ana@example.com")]);
    until_equal("the status", status, async || world.http().send(&key.events(events())).await.status).await;
}

/// The key of a page that shows a secret.
fn shown(response: &HttpResponse) -> ApiKey {
    assert_eq!(response.status, 200, "{}", body(response));
    let page = body(response);
    let value = |name: &str| {
        let (_, rest) = page.split_once(&format!("<dt>{name}</dt>")).expect("a row");
        between(rest, "<code data-copy>", "</code>").to_owned()
    };
    ApiKey { tenant: tests::slug("acme"), prefix: value("Key"), secret: value("Secret") }
}

async fn create(visitor: &Visitor<'_>) -> ApiKey {
    let fields = [("name", "Web <site>"), ("scopes", "events:ingest"), ("origin", "web-site"), ("expires", "30d")];
    let response = visitor.post(KEYS, &fields).await;
    let page = body(&response);
    for sample in ["curl -sS", "import datetime, hashlib", "require(&#39;node:crypto&#39;)", "createHmac"] {
        assert!(page.contains(sample) || page.contains(&sample.replace("&#39;", "'")), "{sample}: {page}");
    }
    shown(&response)
}

#[tokio::test]
async fn a_key_is_created_used_changed_rotated_and_revoked() {
    let console = ConsoleWorld::shared().await;
    let (world, visitor) = (&console.world, console.admin().await);
    let key = create(&visitor).await;
    until_status(world, &key, 200).await;
    let page = format!("{KEYS}/{}", key.prefix);
    let shown_key = visitor.page(&page).await;
    assert!(shown_key.contains("Web &lt;site&gt;") && shown_key.contains("web-site"), "{shown_key}");
    assert!(!shown_key.contains(&key.secret), "the secret is shown once");
    assert!(visitor.page(KEYS).await.contains(&key.prefix));

    let expected = format!("{page}?done=scopes");
    assert_eq!(visitor.change(&format!("{page}/scopes"), &[("scopes", "leads:read")]).await, expected);
    until_status(world, &key, 403).await;
    visitor.change(&format!("{page}/scopes"), &[("scopes", "events:ingest"), ("scopes", "leads:read")]).await;
    until_status(world, &key, 200).await;

    let rotated = shown(&visitor.post(&format!("{page}/rotate"), &[("overlap", "24h")]).await);
    assert_ne!(rotated.secret, key.secret);
    until_status(world, &rotated, 200).await;
    let again = visitor.post(&format!("{page}/rotate"), &[("overlap", "24h")]).await;
    assert_eq!(again.status, 422, "{}", body(&again));
    for part in ["is still valid (until <time ", "End the old secret of the last rotation now"] {
        assert!(body(&again).contains(part), "{part}: {}", body(&again));
    }
    until_status(world, &key, 200).await;
    assert!(visitor.page(&page).await.contains("End the overlap now"));
    visitor.change(&format!("{page}/end-overlap"), &[]).await;
    until_status(world, &key, 401).await;
    until_status(world, &rotated, 200).await;

    // Running programs write uses a little later.
    let used =
        "INSERT INTO api_key_uses SELECT tenant_id, prefix, secret_number, now() - interval '200 seconds' FROM api_keys
        ON CONFLICT (tenant_id, prefix, secret_number) DO UPDATE SET last_used_at = excluded.last_used_at";
    eventually("the use is shown", MAX_WAIT, async || {
        world.database.execute(used).await;
        let question = visitor.page(&format!("{page}/revoke")).await;
        assert!(question.contains("Are you sure?"), "{question}");
        if question.contains("3 minutes ago") { Ok(()) } else { Err(question) }
    })
    .await;
    assert_eq!(visitor.change(&format!("{page}/revoke"), &[]).await, format!("{page}?done=revoked"));
    until_status(world, &rotated, 401).await;
    let audit = visitor.page("/agencies/acme/audit").await;
    for action in ["key.create", "key.scopes", "key.rotate-secret", "key.end-overlap", "key.revoke", "console.login"] {
        assert!(audit.contains(&format!("<th scope=\"row\">{action}</th>")), "{action}: {audit}");
    }
    assert!(
        audit.contains("with console\"><bdi>admin</bdi></td><td data-label=\"With\" data-minor>console</td>"),
        "{audit}"
    );
    let revoked = visitor.page(&page).await;
    assert!(revoked.contains("Revoked") && !revoked.contains("Replace the secret"), "{revoked}");
    let refused = visitor.post(&format!("{page}/scopes"), &[("scopes", "leads:read")]).await;
    assert_eq!(refused.status, 409, "{}", body(&refused));
}

#[tokio::test]
async fn the_samples_of_a_new_key_run() {
    let world = World::with().start().await;
    let mut settings = world.settings().to_vec();
    settings.push(("CONNECT_CONSOLE_API_URL".to_owned(), format!("http://{}", world.http().address())));
    let program = tests::Program::console(&settings).await;
    let console = ConsoleWorld { console: Some(program), world };
    let visitor = console.admin().await;
    let events = ("events:ingest", "\"failed\":0");
    for (heading, command, (scope, expected)) in [
        ("curl and openssl", &["bash", "-c"][..], events),
        ("curl and openssl", &["bash", "-c"], ("leads:read", "\"data\":[]")),
        ("curl and openssl", &["bash", "-c"], ("clients:read", "\"data\":[]")),
        ("Python 3", &["python3", "-c"], events),
        ("Node 18 or later", &["node", "-e"], events),
    ] {
        // Each with a key of its own, so that no second signature of the same second is a replay.
        let page = body(&visitor.post(KEYS, &[("name", "sample"), ("scopes", scope)]).await);
        let code = sample(&page, heading);
        let mut run = tokio::process::Command::new(command[0]);
        let output = run.args(&command[1..]).arg(&code).output().await.expect("the sample runs");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains(expected), "{heading}: {printed} {failed}\n{code}");
    }
}

#[tokio::test]
async fn a_form_with_faults_is_shown_again_with_what_was_typed() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.admin().await;
    let long = "x".repeat(201);
    for (fields, fault) in [
        (&[("name", " "), ("scopes", "leads:read"), ("origin", "\"><i>typed")][..], ">Name must not be empty"),
        (&[("name", long.as_str()), ("scopes", "leads:read")], ">Name must have at most 200 characters"),
        (&[("name", "typed")], "a key needs at least one scope"),
        (&[("name", "typed"), ("scopes", "root")], "unknown scope &quot;root&quot;"),
        (&[("name", "typed"), ("scopes", "leads:read"), ("origin", "crm")], "is the CRM's own"),
        (&[("name", "typed"), ("scopes", "leads:read"), ("expires", "-1d")], "expiry must be a duration"),
    ] {
        let response = visitor.post(KEYS, fields).await;
        let page = body(&response);
        assert_eq!(response.status, 422, "{page}");
        assert!(
            page.contains(fault) && page.contains("aria-invalid=\"true\"") || page.contains("scopes-fault"),
            "{fault}: {page}"
        );
        assert!(page.contains(fault), "{fault}: {page}");
        if fields[0].1 == " " {
            assert!(page.contains("value=\"&quot;&gt;&lt;i&gt;typed\""), "{page}");
            assert!(page.contains("value=\"leads:read\" checked"), "{page}");
        } else if fields[0].1 == "typed" {
            assert!(page.contains("value=\"typed\""), "{page}");
        }
    }
    let rotate = format!("{KEYS}/{}/rotate", console.world.key.prefix);
    assert_eq!(visitor.post(&rotate, &[("overlap", "soon")]).await.status, 422);
    let scopes = format!("{KEYS}/{}/scopes", console.world.key.prefix);
    assert_eq!(visitor.post(&scopes, &[]).await.status, 422);
    assert_eq!(console.world.database.count("SELECT count(*) FROM api_keys").await, 1);
}
