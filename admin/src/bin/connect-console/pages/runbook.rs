//! The runbook, so that a hint leads to what to do without another site.

use crate::context::View;
use crate::failure::Failure;
use crate::layout;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use warp::reply::Response;

/// The runbook of this release, as Markdown.
const RUNBOOK: &str = include_str!("../../../../../ops/RUNBOOK.md");

/// The page with the runbook.
pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    // The title of the page is that of the document.
    let text = RUNBOOK.trim_start_matches("# Runbook\n");
    let content = html! {
        details open {
            summary { "Sections" }
            ul.sections {
                @for (_, heading) in headings(text).iter().filter(|(level, _)| *level == HeadingLevel::H2) {
                    li { a href={ "#" (anchor(heading)) } { (heading) } }
                }
            }
        }
        div.document { (rendered(text)) }
    };
    Ok(layout::page(&view, "Runbook", &content))
}

/// A link to the section with this heading.
pub(crate) fn link(heading: &str) -> Markup {
    html! { a href={ "/runbook#" (anchor(heading)) } { "Runbook: " (heading) } }
}

/// The headings of a Markdown text.
fn headings(text: &str) -> Vec<(HeadingLevel, String)> {
    let (mut found, mut is_heading) = (Vec::new(), false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            found.push((level, String::new()));
            is_heading = true;
        } else if let Event::End(TagEnd::Heading(_)) = event {
            is_heading = false;
        } else if let (true, Event::Text(part) | Event::Code(part), Some((_, heading))) =
            (is_heading, &event, found.last_mut())
        {
            heading.push_str(part);
        }
    }
    found
}

/// A Markdown text as HTML, in which the sections of alerts are folded. Links to other files are left out, and their text stays.
fn rendered(text: &str) -> Markup {
    let mut ids = headings(text).into_iter().map(|(_, heading)| anchor(&heading));
    let (mut events, mut is_kept, mut is_in_section) = (Vec::new(), false, false);
    let tag = |html| Event::Html(CowStr::from(html));
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        if let Event::Start(Tag::Heading { level, classes, attrs, .. }) = event {
            events.extend(is_in_section.then(|| tag("</details>")));
            is_in_section = level > HeadingLevel::H2;
            events.extend(is_in_section.then(|| tag("<details><summary>")));
            let id = ids.next().map(CowStr::from);
            events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
            continue;
        }
        if let Event::Start(Tag::Link { dest_url, .. }) = &event {
            is_kept = dest_url.starts_with('#');
        }
        let is_link = matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link));
        let ends_summary = is_in_section && matches!(event, Event::End(TagEnd::Heading(_)));
        events.extend((!is_link || is_kept).then_some(event));
        events.extend(ends_summary.then(|| tag("</summary>")));
    }
    events.extend(is_in_section.then(|| tag("</details>")));
    let mut html = String::new();
    push_html(&mut html, events.into_iter());
    PreEscaped(html)
}

/// The id of a heading, as renderers of Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn headings_have_ids_and_code_has_no_headings() {
        let text = "## Queues\nSee [it](#connectqueuelag) and [a file](../x.md).\n### ConnectQueueLag\n```sh\n# no heading <b>\n```\n";
        let found: Vec<_> = headings(text).into_iter().map(|(_, heading)| heading).collect();
        assert_eq!(found, ["Queues", "ConnectQueueLag"]);
        let shown = rendered(text).into_string();
        for part in [
            "<h2 id=\"queues\">Queues</h2>",
            "<details><summary>\n<h3 id=\"connectqueuelag\">ConnectQueueLag</h3>\n</summary>",
            "</code></pre>\n</details>",
            "<a href=\"#connectqueuelag\">it</a> and a file.",
            "# no heading &lt;b&gt;",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn every_section_of_the_runbook_is_shown_once() {
        let found = headings(RUNBOOK);
        let ids: BTreeSet<_> = found.iter().map(|(_, heading)| anchor(heading)).collect();
        assert!(ids.len() > 30 && ids.len() == found.len(), "two sections have one id: {ids:?}");
        assert!(link("Events are late").into_string().contains("href=\"/runbook#events-are-late\""));
        let shown = rendered(RUNBOOK).into_string();
        let links = shown.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
        for link in links {
            assert!(ids.contains(link), "{link}");
        }
    }
}
