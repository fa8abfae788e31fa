//! Every page that a link leads to, in each role: it is shown, and the browser complains about nothing.

use super::accessibility::{Checker, found_in_narrow_window};
use super::keyboard::check_keyboard;
use super::{Person, ROLES, furnished};
use crate::console::{Visitor, body};
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

/// Opens every page that is reached by links, `of_a_kind` at most of each kind, such as those of deliveries. `open` shows a page,
/// told whether it is the first one of its kind, and returns its links. Returns the kinds.
async fn walk(of_a_kind: usize, mut open: impl AsyncFnMut(&str, bool) -> Vec<String>) -> BTreeSet<String> {
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
        waiting.extend(open(&path, is_first).await);
    }
    kinds.into_keys().collect()
}

/// The paths that the links of a page lead to.
fn links(page: &str) -> Vec<String> {
    let targets =
        page.split("<a ").skip(1).filter_map(|link| link.split('>').next()?.split_once("href=\"")?.1.split('"').next());
    targets
        .filter(|target| target.starts_with('/') && !target.contains('#'))
        .map(|target| target.replace("&amp;", "&"))
        .collect()
}

/// The page at a path, or the one that it redirects to.
async fn opened(visitor: &Visitor<'_>, path: &str) -> String {
    let response = visitor.get(path).await;
    match response.status {
        303 => visitor.page(response.header("location")).await,
        status => {
            assert_eq!(status, 200, "{path}: {}", body(&response));
            body(&response)
        }
    }
}

#[tokio::test]
async fn each_role_opens_every_linked_page_without_a_complaint_and_without_a_violation_of_a_rule() {
    let (console, _receiver) = furnished().await;
    let (browser, mut checker) = (Browser::start().await, Checker::new().await);
    let mut faults = checker.found_outside(&console, &browser).await;
    // An operator sees all pages. Axe-core takes by far the longest, and pages of a kind have the same markup.
    let person = Person::signed_in(&console, &browser, ROLES[2]).await;
    checker.prepare(&person).await;
    let all = walk(2, async |path, is_first| {
        assert_eq!(person.open(path).await, 200, "{path}: {}", person.page.text().await);
        assert_eq!(person.page.take_complaints(), [""; 0], "{path}");
        assert_eq!(person.page.evaluate("document.querySelectorAll('h1').length").await, 1, "{path}");
        match is_first {
            true => faults.extend(checker.found(&person, path).await),
            false => faults.extend(found_in_narrow_window(&person.page, path).await),
        }
        drop(person.page.take_complaints());
        person.links().await
    })
    .await;
    check_keyboard(&person).await;
    assert_eq!(person.open("/runbook#connectqueuelag").await, 200);
    let is_unfolded = "document.querySelector(':target').closest('details').open && document.body.scrollHeight < 7000";
    assert_eq!(person.page.evaluate(is_unfolded).await, true, "only the section that a link names is unfolded");

    let mut counts = Vec::new();
    for options in &ROLES[..2] {
        let visitor = console.signed_in(options).await;
        let kinds = walk(1, async |path, _| {
            let page = opened(&visitor, path).await;
            assert_eq!(page.matches("<h1").count(), 1, "{options:?}: {path}");
            links(&page)
        })
        .await;
        assert!(kinds.is_subset(&all), "{options:?}: pages that no browser has opened: {kinds:?}, {all:?}");
        assert_eq!(kinds.contains("/agencies/acme/keys/new?"), options[1] != "viewer", "{kinds:?}");
        assert!(!kinds.contains("/queues?"), "{options:?}: {kinds:?}");
        assert_wanted(&kinds);
        counts.push(kinds.len());
    }
    assert_wanted(&all);
    assert!(all.contains("/queues?") && all.contains("/agencies/acme/keys/new?"), "{all:?}");
    counts.push(all.len());
    assert!(counts.is_sorted() && counts[0] >= 10, "a higher role sees more: {counts:?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    reports_what_the_policy_of_a_page_forbids(&Person::at(&console, &browser).await).await;
}

/// Checks that pages of every role were reached.
fn assert_wanted(kinds: &BTreeSet<String>) {
    for wanted in ["/agencies/acme?", "/agencies/acme/deliveries/{id}?", "/agencies/acme/leads/{id}?"] {
        assert!(kinds.contains(wanted), "{wanted}: {kinds:?}");
    }
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
