//! The pages against the automatic rules of WCAG 2.2 AA (axe-core), in light, in dark and in a narrow window.

use super::{Person, ROLES};
use crate::console::ConsoleWorld;
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

/// What is wrong with the page that is open, in light, perhaps in dark, and in a narrow window.
pub(super) async fn found(person: &Person, axe: &str, path: &str, in_dark: bool) -> Vec<String> {
    let page = &person.page;
    page.set_colors(ColorScheme::Light).await;
    let mut found = faults(page, axe).await;
    if in_dark {
        page.set_colors(ColorScheme::Dark).await;
        found.extend(faults_of_colors(page, axe).await.into_iter().map(|fault| format!("dark: {fault}")));
    }
    page.set_size(320, 900).await;
    if page.evaluate(IS_WIDER).await == Value::Bool(true) {
        found.push(format!("wider than the window: {}", page.evaluate(WIDE_ELEMENTS).await));
    }
    page.set_size(1280, 900).await;
    found.into_iter().map(|fault| format!("{path}: {fault}")).collect()
}

/// What is wrong with the pages that no link leads to.
pub(super) async fn found_outside(console: &ConsoleWorld, browser: &Browser, axe: &str) -> Vec<String> {
    let person = Person::at(console, browser).await;
    let link = console.link(&["--role", "operator"]).await;
    let mut all = Vec::new();
    for path in ["/sign-in", link.as_str(), "/sign-in/cl_unknown", "/nothing"] {
        person.open(path).await;
        all.extend(found(&person, axe, path, true).await);
    }
    person.sign_in(console, ROLES[1]).await;
    person.open("/agencies/acme/keys/new").await;
    person.page.follow("Create the key").await;
    person.sees("Please correct what is marked below.").await;
    all.extend(found(&person, axe, "a form with faults", true).await);

    person.open("/sign-in").await;
    person
        .page
        .evaluate("{ document.querySelector('main').innerHTML = '<h1>A</h1><input><img src=\"data:,\">'; }")
        .await;
    let violations = faults(&person.page, axe).await;
    for rule in ["label:", "image-alt:"] {
        assert!(violations.iter().any(|fault| fault.starts_with(rule)), "{rule} {violations:?}");
    }
    all
}
