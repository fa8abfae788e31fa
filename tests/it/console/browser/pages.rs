//! Every page that a link leads to, in each role: it is shown, and the browser complains about nothing.

use super::accessibility::{axe, found, found_outside};
use super::keyboard::check_keyboard;
use super::{Person, ROLES, furnished};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tests::browser::Browser;
use tests::until;

/// The path with its ids replaced, and the names of its query.
fn kind(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_id = |part: &str| uuid::Uuid::try_parse(part).is_ok() || part.starts_with("ck_");
    let parts = path.split('/').map(|part| if is_id(part) { "{id}" } else { part });
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    format!("{}?{}", parts.collect::<Vec<_>>().join("/"), names.collect::<Vec<_>>().join("&"))
}

/// Opens every page that is reached by links, `of_a_kind` at most of each kind, such as those of deliveries. Calls `look` on each, with whether it is the
/// first one of its kind, and returns their kinds.
async fn walk(person: &Person, of_a_kind: usize, mut look: impl AsyncFnMut(&Person, &str, bool)) -> BTreeSet<String> {
    let mut waiting = VecDeque::from(["/".to_owned()]);
    let mut opened = BTreeSet::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(path) = waiting.pop_front() {
        let seen = kinds.entry(kind(&path)).or_default();
        if *seen >= of_a_kind || !opened.insert(path.clone()) {
            continue;
        }
        let is_first = *seen == 0;
        *seen += 1;
        let status = person.open(&path).await;
        assert_eq!(status, 200, "{path}: {}", person.page.text().await);
        look(person, &path, is_first).await;
        waiting.extend(person.links().await);
    }
    kinds.into_keys().collect()
}

#[tokio::test]
async fn each_role_opens_every_linked_page_without_a_complaint_and_without_a_violation_of_a_rule() {
    let (console, _receiver) = furnished().await;
    let (browser, axe) = (Browser::start().await, axe().await);
    let mut counts = Vec::new();
    let mut faults = found_outside(&console, &browser, &axe).await;
    for options in ROLES {
        let person = Person::signed_in(&console, &browser, options).await;
        // An operator sees all pages.
        let is_operator = options[1] == "operator";
        let kinds = walk(&person, if is_operator { 2 } else { 1 }, async |person, path, is_first| {
            assert_eq!(person.page.take_complaints(), [""; 0], "{options:?}: {path}");
            let heading = person.page.evaluate("document.querySelectorAll('h1').length").await;
            assert_eq!(heading, 1, "{path}");
            if is_operator {
                faults.extend(found(person, &axe, path, is_first).await);
                drop(person.page.take_complaints());
            }
        })
        .await;
        if is_operator {
            check_keyboard(&person).await;
        }
        for wanted in ["/agencies/acme?", "/agencies/acme/deliveries/{id}?", "/agencies/acme/leads/{id}?"] {
            assert!(kinds.contains(wanted), "{options:?}: {wanted}: {kinds:?}");
        }
        assert_eq!(kinds.contains("/agencies/acme/keys/new?"), options[1] != "viewer", "{kinds:?}");
        assert_eq!(kinds.contains("/queues/{id}?") || kinds.contains("/queues?"), options[1] == "operator");
        counts.push(kinds.len());
    }
    assert!(counts.is_sorted() && counts[0] >= 10, "a higher role sees more: {counts:?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    reports_what_the_policy_of_a_page_forbids(&Person::at(&console, &browser).await).await;
}

async fn reports_what_the_policy_of_a_page_forbids(person: &Person) {
    assert_eq!(person.open("/sign-in").await, 200);
    assert_eq!(person.page.take_complaints(), [""; 0]);
    for forbidden in [
        "document.body.setAttribute('style', 'color: red')",
        "document.body.append(Object.assign(document.createElement('script'), { textContent: '1' }))",
        "document.body.append(Object.assign(document.createElement('img'), { src: '/x.png' }))",
    ] {
        person.page.evaluate(&format!("{{ {forbidden}; }}")).await;
        let complaints = async || person.page.take_complaints();
        let complaints = until(forbidden, complaints, |complaints| !complaints.is_empty()).await;
        assert!(complaints.iter().any(|one| one.contains("Content Security Policy")), "{complaints:?}");
    }
}
