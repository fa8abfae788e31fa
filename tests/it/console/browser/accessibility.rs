//! The pages against the automatic rules of WCAG 2.2 AA (axe-core), in light, in dark and in a narrow window.

use super::{Person, ROLES};
use crate::console::ConsoleWorld;
use crate::openapi::{python_tool, run};
use serde_json::Value;
use std::collections::BTreeSet;
use tests::browser::{Browser, ColorScheme, Page};
use tests::text;

/// All rules, those that do not depend on colors, and those that do. A rule that depends on colors finds nothing new where all
/// colors have been checked on another page.
const ALL_RULES: &str = "runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']";
const WITHOUT_COLORS: &str =
    "rules: { 'color-contrast': { enabled: false }, 'link-in-text-block': { enabled: false } }";
const RULES_OF_COLORS: &str = "runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }";

/// Finds what violates `RULES`. The report has the rule, the element, and what to do. Style sheets are not loaded again.
const FIND: &str = "axe.run(document, { RULES, resultTypes: ['violations'], preload: false }).then(({ violations, passes }) => ({
        rules: passes.length + violations.length,
        faults: violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)),
    }))";

/// The colors of the texts and fields that the page shows, each with what the rules about colors compare it with.
const COLORS: &str = "[...new Set([...document.querySelectorAll('body *')]
    .filter((element) => element.checkVisibility() && (element.matches('input, select, textarea')
        || [...element.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim() !== '')))
    .map((element) => {
        const style = getComputedStyle(element);
        let behind = element;
        while (behind.parentElement && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        // Large text needs less contrast.
        const size = parseFloat(style.fontSize) < 18 ? '' : `${style.fontSize} ${style.fontWeight}`;
        return [style.color, getComputedStyle(behind).backgroundColor, size, style.textDecorationLine,
            getComputedStyle(element.parentElement).color].join();
    }))]";

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
    faults_by(page, axe, ALL_RULES).await
}

async fn faults_by(page: &Page, axe: &str, rules: &str) -> Vec<String> {
    let report = check(page, axe, rules).await;
    let least = if rules == RULES_OF_COLORS { 0 } else { 10 };
    assert!(report["rules"].as_u64() > Some(least), "axe-core has checked hardly anything: {report}");
    report["faults"].as_array().expect("faults").iter().map(|fault| text(fault).to_owned()).collect()
}

async fn check(page: &Page, axe: &str, rules: &str) -> Value {
    if page.evaluate("typeof axe === 'undefined'").await == Value::Bool(true) {
        page.evaluate(&format!("{axe}; true")).await;
    }
    page.evaluate(&FIND.replace("RULES", rules)).await
}

/// Whether the page is wider than the window, so that it must be scrolled sideways (WCAG 1.4.10).
const IS_WIDER: &str = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
const WIDE_ELEMENTS: &str = "[...document.querySelectorAll('main *')]
    .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 150)).join('\\n')";

/// What is wrong in a narrow window with the page that is open.
pub(super) async fn found_in_narrow_window(page: &Page, path: &str) -> Option<String> {
    page.set_size(320, 900).await;
    let is_wider = page.evaluate(IS_WIDER).await == Value::Bool(true);
    let wide = if is_wider { Some(page.evaluate(WIDE_ELEMENTS).await) } else { None };
    page.set_size(1280, 900).await;
    wide.map(|elements| format!("{path}: wider than the window: {elements}"))
}

/// Checks pages one after another, their colors where no earlier page had them.
pub(super) struct Checker {
    axe: String,
    known_colors: BTreeSet<String>,
}

impl Checker {
    pub(super) async fn new() -> Self {
        Self { axe: axe().await, known_colors: BTreeSet::new() }
    }

    /// Loads axe-core with each page that the person opens from now on, which takes less time than evaluating it there.
    pub(super) async fn prepare(&self, person: &Person) {
        person.page.add_script(&self.axe).await;
    }

    /// Whether the page that is open has colors that no earlier one had.
    async fn meets_new_colors(&mut self, page: &Page) -> bool {
        let found = page.evaluate(COLORS).await;
        let found = found.as_array().expect("colors").iter().map(|colors| text(colors).to_owned());
        let before = self.known_colors.len();
        self.known_colors.extend(found);
        self.known_colors.len() > before
    }

    /// What is wrong with the page that is open, in light, in dark, and in a narrow window.
    pub(super) async fn found(&mut self, person: &Person, path: &str) -> Vec<String> {
        let page = &person.page;
        page.set_colors(ColorScheme::Light).await;
        let rules = match self.meets_new_colors(page).await {
            true => ALL_RULES.to_owned(),
            false => format!("{ALL_RULES}, {WITHOUT_COLORS}"),
        };
        let mut found = faults_by(page, &self.axe, &rules).await;
        page.set_colors(ColorScheme::Dark).await;
        if self.meets_new_colors(page).await {
            let in_dark = faults_by(page, &self.axe, RULES_OF_COLORS).await;
            found.extend(in_dark.into_iter().map(|fault| format!("dark: {fault}")));
        }
        let found = found.into_iter().map(|fault| format!("{path}: {fault}"));
        found.chain(found_in_narrow_window(page, path).await).collect()
    }

    /// What is wrong with the pages that no link leads to.
    pub(super) async fn found_outside(&mut self, console: &ConsoleWorld, browser: &Browser) -> Vec<String> {
        let person = Person::at(console, browser).await;
        self.prepare(&person).await;
        let link = console.link(&["--role", "operator"]).await;
        let mut all = Vec::new();
        for path in ["/sign-in", link.as_str(), "/sign-in/cl_unknown", "/nothing"] {
            person.open(path).await;
            all.extend(self.found(&person, path).await);
        }
        person.sign_in(console, ROLES[1]).await;
        person.open("/agencies/acme/keys/new").await;
        person.page.follow("Create the key").await;
        person.sees("Please correct what is marked below.").await;
        all.extend(self.found(&person, "a form with faults").await);

        person.open("/sign-in").await;
        let break_page = "{ document.querySelector('main').innerHTML = '<h1>Title</h1><input><img src=\"data:,\">';
            document.querySelector('h1').style.color = 'silver'; }";
        person.page.evaluate(break_page).await;
        let violations = self.found(&person, "broken").await;
        for rule in ["label", "image-alt", "color-contrast"] {
            let is_of_rule = |fault: &String| fault.starts_with(&format!("broken: {rule}: "));
            assert!(violations.iter().any(is_of_rule), "{rule} {violations:?}");
        }
        all
    }
}
