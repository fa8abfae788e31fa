//! The pages against the automatic rules of WCAG 2.2 AA (axe-core), in light, in dark and in a narrow window.

use super::pages::walk;
use super::{Person, ROLES, furnished};
use crate::openapi::{python_tool, run};
use serde_json::Value;
use tests::browser::{Browser, ColorScheme, Page};
use tests::text;

/// The rules that a page is checked against.
const ALL_RULES: &str = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']";
/// The rules whose result depends on colors, for a page that was checked against all rules in other colors.
const RULES_OF_COLORS: &str = "{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }";

/// Finds what violates `rules`. The report has the rule, the element, and what to do. Style sheets are not loaded again.
const FIND: &str = "axe.run(document, { runOnly: RULES, resultTypes: ['violations'], preload: false }).then(({ violations, passes }) => ({
        rules: passes.length + violations.length,
        faults: violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)),
    }))";

/// The source of axe-core, which a package of the tests' Python environment brings.
pub(crate) async fn axe() -> String {
    let mut python = python_tool("python").await;
    let program = "import importlib.resources as r; print(r.files('axe_playwright_python') / 'axe.min.js')";
    let found = run(python.args(["-c", program]), 1).await;
    assert!(found.succeeded, "{found:?}");
    std::fs::read_to_string(found.output.trim()).expect("axe-core")
}

/// What axe-core finds on the page that is open.
pub(crate) async fn faults(page: &Page, axe: &str) -> Vec<String> {
    let report = check(page, axe, ALL_RULES).await;
    assert!(report["rules"].as_u64() > Some(10), "axe-core has checked hardly anything: {report}");
    messages(&report)
}

/// What axe-core finds on the page that is open with the rules about colors.
async fn faults_of_colors(page: &Page, axe: &str) -> Vec<String> {
    let report = check(page, axe, RULES_OF_COLORS).await;
    assert!(report["rules"].as_u64() > Some(0), "axe-core has checked nothing: {report}");
    messages(&report)
}

async fn check(page: &Page, axe: &str, rules: &str) -> Value {
    if page.evaluate("typeof axe === 'undefined'").await == Value::Bool(true) {
        page.evaluate(&format!("{axe}; true")).await;
    }
    page.evaluate(&FIND.replace("RULES", rules)).await
}

fn messages(report: &Value) -> Vec<String> {
    report["faults"].as_array().expect("faults").iter().map(|fault| text(fault).to_owned()).collect()
}

/// Whether the page is wider than the window, so that it must be scrolled sideways (WCAG 1.4.10).
const IS_WIDER: &str = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
const WIDE_ELEMENTS: &str = "[...document.querySelectorAll('main *')]
    .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 150)).join('\\n')";

#[tokio::test]
async fn no_page_violates_a_rule_in_light_dark_or_a_narrow_window() {
    let (console, _receiver) = furnished().await;
    let (browser, axe) = (Browser::start().await, axe().await);
    let mut found: Vec<String> = Vec::new();
    // An operator sees all pages; an administrator's have another navigation.
    for options in [ROLES[1], ROLES[2]] {
        let person = Person::signed_in(&console, &browser, options).await;
        walk(&person, async |person, path| {
            for (scheme, width) in
                [(ColorScheme::Light, 1280), (ColorScheme::Dark, 1280), (ColorScheme::Light, 320)]
            {
                person.page.set_colors(scheme).await;
                person.page.set_size(width, 900).await;
                let of_page = match scheme {
                    ColorScheme::Light => faults(&person.page, &axe).await,
                    ColorScheme::Dark => faults_of_colors(&person.page, &axe).await,
                };
                found.extend(of_page.into_iter().map(|fault| format!("{path} {scheme:?} {width}: {fault}")));
                if person.page.evaluate(IS_WIDER).await == Value::Bool(true) {
                    let wide = person.page.evaluate(WIDE_ELEMENTS).await;
                    found.push(format!("{path} {width}: wider than the window: {wide}"));
                }
            }
        })
        .await;
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

#[tokio::test]
async fn pages_of_people_who_are_not_signed_in_violate_no_rule() {
    let (console, _receiver) = furnished().await;
    let (browser, axe) = (Browser::start().await, axe().await);
    let person = Person::at(&console, &browser).await;
    let link = console.link(&["--role", "operator"]).await;
    for path in ["/sign-in", link.as_str(), "/sign-in/cl_unknown", "/nothing"] {
        person.open(path).await;
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            person.page.set_colors(scheme).await;
            assert_eq!(faults(&person.page, &axe).await, [""; 0], "{path} {scheme:?}");
        }
    }
    // A form with faults.
    person.sign_in(&console, ROLES[1]).await;
    person.open("/agencies/acme/keys/new").await;
    person.page.follow("Create the key").await;
    person.sees("Please correct what is marked below.").await;
    assert_eq!(faults(&person.page, &axe).await, [""; 0]);
}

#[tokio::test]
async fn a_violation_is_found() {
    let (console, _receiver) = furnished().await;
    let (browser, axe) = (Browser::start().await, axe().await);
    let person = Person::at(&console, &browser).await;
    person.open("/sign-in").await;
    person
        .page
        .evaluate("{ document.querySelector('main').innerHTML = '<h1>A</h1><input><img src=\"data:,\">'; }")
        .await;
    let found = faults(&person.page, &axe).await;
    for rule in ["label:", "image-alt:"] {
        assert!(found.iter().any(|fault| fault.starts_with(rule)), "{rule} {found:?}");
    }
}
