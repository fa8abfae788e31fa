//! Refused requests and the signature check in the browser.

use super::{refused, until_recorded, valid, with_wrong_secret};
use crate::console::{ConsoleWorld, Visitor, between, body};
use common::signature::{Signed, sign};
use tests::{EVENTS, World, now};

const PAGE: &str = "/agencies/acme/refusals";

#[tokio::test]
async fn the_owner_of_the_key_sees_why_and_nobody_else() {
    let console = ConsoleWorld::shared().await;
    let world = &console.world;
    world.add_tenant("other").await;
    let id = refused(world, &world.key.events_at(1, valid()), 401).await;
    until_recorded(world, 1).await;
    let one = format!("{PAGE}/{id}");
    let of_key = format!("{PAGE}?key={}", world.key.prefix);
    for visitor in [console.viewer().await, console.admin().await, console.operator().await] {
        for path in [PAGE, &of_key] {
            let list = visitor.page(path).await;
            let parts = ["stale", "data-refresh=\"10\"", one.as_str()];
            assert!(parts.iter().all(|part| list.contains(part)), "{list}");
            assert!(list.contains(&format!("title=\"{}\"><bdi>", world.key.prefix)), "{list}");
        }
        let page = visitor.page(&one).await;
        assert!(page.contains("behind the clock of Connect") && page.contains("Synchronize the clock"), "{page}");
        assert!(page.contains(&format!("/agencies/acme/signature?request={id}")), "{page}");
        let key = visitor.page(&format!("/agencies/acme/keys/{}", world.key.prefix)).await;
        assert!(key.contains(&of_key), "{key}");
        assert!(visitor.page(&format!("/agencies/acme/find?id={id}")).await.contains(&one));
    }
    let foreign = console.signed_in(&["--role", "admin", "--tenant", "other"]).await;
    let own = foreign.page("/agencies/other/refusals").await;
    assert!(!own.contains("stale") && own.contains("There is no refused request"), "{own}");
    for path in [
        one.clone(),
        format!("/agencies/other/refusals/{id}"),
        format!("/agencies/other/refusals?key={}", world.key.prefix),
        format!("/agencies/other/signature?request={id}"),
        format!("/agencies/acme/signature?request={id}"),
    ] {
        assert_eq!(foreign.get(&path).await.status, 404, "{path}");
    }
    let posted = foreign.post("/agencies/other/signature", &[("request", &id)]).await;
    assert_eq!(posted.status, 404, "{}", body(&posted));
    // The signature of a request that got 400 was right.
    let invalid = refused(world, &world.key.events("{}".to_owned()), 400).await;
    until_recorded(world, 2).await;
    let page = console.viewer().await.page(&format!("{PAGE}/{invalid}")).await;
    assert!(page.contains("invalid_request") && !page.contains("Check the signature"), "{page}");
}

#[tokio::test]
async fn older_requests_are_on_further_pages() {
    let console = ConsoleWorld::shared().await;
    let insert = "INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, body_bytes, detail)
        SELECT tenant_id, ('019' || lpad(to_hex(n), 9, '0') || '70008000000000000000')::uuid, prefix, now(), 'POST', '/', 401,
               'reason-' || n, 0, repeat('ä', 79 + n % 3)
        FROM api_keys, generate_series(1, 60) n";
    console.world.database.execute(insert).await;
    let viewer = console.viewer().await;
    let newest = viewer.page(PAGE).await;
    assert!(newest.contains("reason-60<") && newest.contains("reason-11<") && !newest.contains("reason-10<"));
    let (whole, cut) = (format!(">{}</td>", "ä".repeat(80)), format!(">{}…</td>", "ä".repeat(80)));
    let title = format!("title=\"{}\"", "ä".repeat(81));
    assert!(newest.contains(&whole) && newest.contains(&cut) && newest.contains(&title));
    let older = crate::console::between(&newest, "href=\"/agencies/acme/refusals?before=", "\"");
    let older = viewer.page(&format!("{PAGE}?before={older}")).await;
    assert!(older.contains("reason-10<") && older.contains("reason-1<") && !older.contains("reason-11<"));
    console.world.database.execute("UPDATE refused_requests SET reason = 'stale', detail = NULL").await;
    let alike = viewer.page(PAGE).await;
    assert!(alike.contains("<summary>50 times</summary>") && alike.matches(">stale<").count() == 1, "{alike}");
    assert_eq!(alike.matches(&format!("href=\"{PAGE}/")).count(), 51, "the newest one, and each");
}

#[tokio::test]
async fn the_list_of_keys_shows_the_requests_of_a_day() {
    let mut console = ConsoleWorld { console: None, world: World::with().join().await };
    for _ in 0..3 {
        refused(&console.world, &with_wrong_secret(&console.world.key).events(valid()), 401).await;
    }
    for mut ingest in console.world.ingests.drain(..) {
        ingest.terminate().await;
    }
    let old =
        "INSERT INTO api_key_requests SELECT tenant_id, prefix, now() - interval '25 hours', 7000, 8000 FROM api_keys";
    console.world.database.execute(old).await;
    let page = console.viewer().await.page("/agencies/acme/keys").await;
    let link = format!(
        "<td data-label=\"Accepted, last day\">0</td><td data-label=\"Refused, last day\"><a href=\"{PAGE}?key={}\">3</a></td>",
        console.world.key.prefix
    );
    assert!(page.contains(&link), "{page}");
}

/// The sample as the page shows it.
mod sign_sample {
    include!("../../../admin/src/bin/connect-console/pages/signature/sign.rs");

    pub(super) fn sign(secret: &str, t: u64, method: &str, path: &str, body: &[u8]) -> String {
        signature(secret, t, method, path, body)
    }
}

const CHECK: &str = "/agencies/acme/signature";

/// The result for a form.
async fn checked(visitor: &Visitor<'_>, fields: &[(&str, &str)]) -> String {
    let response = visitor.post(CHECK, fields).await;
    assert_eq!(response.status, 200, "{}", body(&response));
    body(&response)
}

/// The fields of the form for a request of the events route.
fn filled_form<'f>(key: &'f str, t: &'f str, signature: &'f str, body: &'f str) -> Vec<(&'f str, &'f str)> {
    let request = [("key", key), ("method", "POST"), ("path", EVENTS)];
    [&request[..], &[("t", t), ("signature", signature), ("body", body)]].concat()
}

#[tokio::test]
async fn the_first_difference_of_a_refused_request_is_named() {
    let console = ConsoleWorld::shared().await;
    let world = &console.world;
    let key = &world.key;
    // Signed, then changed on the way: the classic.
    let text = String::from_utf8(valid()).expect("text");
    let request = key.events(text.clone()).with_body(format!("{text}\n"));
    let signature = request.header("x-connect-signature");
    let id = refused(world, &request, 401).await;
    until_recorded(world, 1).await;
    let viewer = console.viewer().await;
    let form = viewer.page(&format!("{CHECK}?request={id}")).await;
    assert!(form.contains(&format!("value=\"{}\"", key.prefix)) && form.contains(&format!("value=\"{EVENTS}\"")));
    let t = between(&signature, "t=", ",");
    assert!(form.contains(&format!("value=\"{t}\"")), "{form}");
    let check = async |signature: &str, body: &str| {
        let fields = filled_form(&key.prefix, t, signature, body);
        checked(&viewer, &[&[("request", id.as_str())][..], &fields].concat()).await
    };
    let page = check(&signature, &text).await;
    assert!(page.contains("First difference: MAC"), "{page}");
    assert!(page.contains("the body without its last line break"), "{page}");
    let page = check(&signature, "{}").await;
    assert!(page.contains("First difference: Body"), "{page}");
    let wrong = with_wrong_secret(key).events(text.clone()).header("x-connect-signature");
    let page = check(&wrong, &text).await;
    assert!(page.contains("First difference: MAC") && page.contains("another secret"), "{page}");
    let right = sign(key.secret.as_bytes(), t.parse().expect("seconds"), Signed::Body(format!("{text}\n").as_bytes()));
    let page = check(&right, &text).await;
    assert!(page.contains("No difference was found"), "{page}");
}

#[tokio::test]
async fn no_page_shows_a_secret_or_a_mac_that_nobody_has_sent() {
    let console = ConsoleWorld::shared().await;
    let key = &console.world.key;
    let t = now().to_string();
    let right = sign(key.secret.as_bytes(), now(), Signed::Body(b"chosen"));
    let right = right.split_once("v1=").expect("a MAC").1;
    for visitor in [console.viewer().await, console.operator().await] {
        for signature in ["", "zz", &format!("t={t},v1={}", "0".repeat(64)), "t=1,v1=x"] {
            let page = checked(&visitor, &filled_form(&key.prefix, &t, signature, "chosen")).await;
            assert!(!page.contains(&key.secret) && !page.contains(right), "{page}");
            assert!(page.contains(&format!("{t}.chosen")) || signature.starts_with("t=1"), "the text to sign: {page}");
        }
    }
}

#[tokio::test]
async fn a_foreign_key_is_as_unknown_as_one_that_does_not_exist() {
    let console = ConsoleWorld::shared().await;
    let foreign = console.world.add_tenant("other").await;
    let viewer = console.viewer().await;
    let t = now().to_string();
    let right = sign(foreign.secret.as_bytes(), now(), Signed::Body(b"x"));
    let mut pages = Vec::new();
    for prefix in [foreign.prefix.as_str(), "ck_ffffffffffffffff", "no prefix at all"] {
        let page = checked(&viewer, &filled_form(prefix, &t, &right, "x")).await;
        assert!(page.contains("First difference: Key"), "{page}");
        pages.push(between(&page, "<ol class=\"timeline\">", "</ol>").to_owned());
    }
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
}

#[tokio::test]
async fn hostile_texts_are_shown_as_text_and_large_ones_are_refused() {
    let console = ConsoleWorld::shared().await;
    let viewer = console.viewer().await;
    let hostile = "\"></textarea><script>alert(1)</script>";
    let fields = ["key", "method", "path", "t", "signature", "body"].map(|name| (name, hostile));
    let page = checked(&viewer, &fields).await;
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"), "{page}");
    let large = "x".repeat(300 * 1024);
    for (name, fault) in [("body", "at most 256 KiB"), ("signature", "is too long")] {
        let fields = [("key", "ck_1"), ("method", "POST"), ("path", EVENTS), (name, large.as_str())];
        let response = viewer.post(CHECK, &fields).await;
        assert_eq!(response.status, 422);
        assert!(body(&response).contains(fault));
    }
    let empty = viewer.post(CHECK, &[]).await;
    assert!(empty.status == 422 && body(&empty).contains("must not be empty"), "{}", body(&empty));
}

#[tokio::test]
async fn each_sample_makes_a_signature_that_verifies() {
    let console = ConsoleWorld::shared().await;
    let key = console.world.key.clone();
    let page = console.viewer().await.page(CHECK).await;
    let code = |heading: &str| {
        let section = between(&page, &format!("<h3>{heading}</h3>"), "</pre>");
        let code = between(section, "<code data-copy>", "</code>");
        code.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    let shell = format!(
        "{}\nprintf %s \"$BODY\" | sign \"$METHOD\" \"$TARGET\" | sed 's/^X-Connect-Signature: //'",
        code("Shell and openssl")
    );
    let python = format!(
        "{}\nimport os, sys\nsys.stdout.write(signature(*(os.environ[n] for n in ('SECRET', 'METHOD', 'TARGET')), os.environ['BODY'].encode()))",
        code("Python 3")
    );
    let node = format!(
        "{}\nconst e = process.env; process.stdout.write(signature(e.SECRET, e.METHOD, e.TARGET, e.BODY));",
        code("Node 18 or later")
    );
    assert!(code("Rust (hmac, sha2, hex)").contains("fn signature"));
    let clients = format!("{}/clients?email=ana%40example.com", tests::RECORDS);
    for (number, (program, option, script)) in
        [("bash", "-c", shell), ("python3", "-c", python), ("node", "-e", node), ("rust", "", String::new())]
            .into_iter()
            .enumerate()
    {
        let events = String::from_utf8(valid()).expect("text");
        // Spaces at the end make the signatures of one second differ.
        let target = format!("{clients}{number}");
        for (method, target, text) in
            [("POST", EVENTS, format!("{events}{}", " ".repeat(number))), ("GET", &target, String::new())]
        {
            let signature = if program == "rust" {
                let seconds = u64::try_from(now()).expect("after 1970");
                sign_sample::sign(&key.secret, seconds, method, target, text.as_bytes())
            } else {
                let mut run = tokio::process::Command::new(program);
                run.args([option, &script])
                    .env("SECRET", &key.secret)
                    .env("METHOD", method)
                    .env("TARGET", target)
                    .env("BODY", &text);
                let output = run.output().await.expect("the sample runs");
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            };
            let request = key.records(method, target, text).replacing("x-connect-signature", &signature);
            let response = console.world.http().send(&request).await;
            assert_eq!(response.status, 200, "{program} {target}: {signature}: {response:?}");
        }
    }
}
