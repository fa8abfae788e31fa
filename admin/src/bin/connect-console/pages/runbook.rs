//! The runbook, so that a hint leads to what to do without another site.

use crate::context::View;
use crate::failure::Failure;
use crate::layout;
use maud::{Markup, html};
use warp::reply::Response;

/// The runbook of this release, as Markdown.
const RUNBOOK: &str = include_str!("../../../../../ops/RUNBOOK.md");

/// The page with the runbook.
pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let content = html! {
        p.soft { "What to do about each alert. The text is that of " code { "ops/RUNBOOK.md" } " of this release." }
        @for section in sections(RUNBOOK) { (shown(&section)) }
    };
    Ok(layout::page(&view, "Runbook", &content))
}

/// A link to the section with this heading.
pub(super) fn link(heading: &str) -> Markup {
    html! { a href={ "/runbook#" (anchor(heading)) } { "Runbook: " (heading) } }
}

/// A heading, with its level, and the text below it.
struct Section<'t> {
    level: usize,
    heading: &'t str,
    text: Vec<&'t str>,
}

/// The sections of a Markdown text. A line that begins with `#` within a block of code is no heading.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        let heading = line[level..].strip_prefix(' ').filter(|_| level > 0 && !is_code);
        match (heading, found.last_mut()) {
            (Some(heading), _) => found.push(Section { level, heading, text: Vec::new() }),
            (None, Some(section)) => section.text.push(line),
            (None, None) => {}
        }
    }
    found
}

fn shown(section: &Section<'_>) -> Markup {
    let text = section.text.join("\n");
    html! {
        // The title of the page is that of the document.
        @match section.level {
            1 => {},
            2 => h2 id=(anchor(section.heading)) { (section.heading) },
            _ => h3 id=(anchor(section.heading)) { (section.heading) },
        }
        @if !text.trim().is_empty() { pre.wrapped { (text.trim()) } }
    }
}

/// The id of a heading, as renderers of Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_their_text_and_code_has_no_headings() {
        let text =
            "# Runbook\nAbout\n## Queues\n### ConnectQueueLag\nDo this:\n```sh\n# not a heading\n```\n";
        let found = sections(text);
        let headings: Vec<_> = found.iter().map(|section| (section.level, section.heading)).collect();
        assert_eq!(headings, [(1, "Runbook"), (2, "Queues"), (3, "ConnectQueueLag")]);
        assert_eq!(found[2].text, ["Do this:", "```sh", "# not a heading", "```"]);
        let page = shown(&found[2]).into_string();
        assert!(page.starts_with("<h3 id=\"connectqueuelag\">"), "{page}");
    }

    #[test]
    fn every_section_of_the_runbook_is_shown_once() {
        let found = sections(RUNBOOK);
        let mut ids: Vec<_> = found.iter().map(|section| anchor(section.heading)).collect();
        assert!(ids.len() > 30, "{ids:?}");
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count, "two sections have one id");
        assert!(link("Events are late").into_string().contains("href=\"/runbook#events-are-late\""));
    }
}
