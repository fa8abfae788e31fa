//! The settings area without a mouse.

use super::Person;
use serde_json::Value;
use tests::text;

/// The elements that a person must be able to reach, marked with their number.
const MARK: &str =
    "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
    .filter((element) => element.checkVisibility()).map((element, number) => element.dataset.number = number).length";

/// The number of the focused element, and whether it is marked for those who see.
const FOCUSED: &str = "(() => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    return { number: focused.dataset.number, isVisible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
        what: focused.outerHTML.slice(0, 200) };
})()";

/// Presses the tab key until all elements of the page have had the focus.
async fn reach_all(person: &Person, path: &str) {
    assert_eq!(person.open(path).await, 200);
    let count = person.page.evaluate(MARK).await.as_u64().expect("a count");
    let mut reached = std::collections::BTreeSet::new();
    // What can be scrolled is a stop as well.
    for _ in 0..count + 20 {
        person.page.press("Tab").await;
        let focused = person.page.evaluate(FOCUSED).await;
        let Value::String(number) = &focused["number"] else { continue };
        assert_eq!(focused["isVisible"], true, "{path}: {focused}");
        reached.insert(number.clone());
        if reached.len() as u64 == count {
            break;
        }
    }
    assert_eq!(reached.len() as u64, count, "{path}: {reached:?}");
}

/// Checks that everything on some pages is reached with the tab key and shows its focus.
pub(super) async fn check_keyboard(person: &Person) {
    for path in ["/queues", "/agencies/acme/keys/new", "/agencies/acme/deliveries?state=dead", "/agencies/acme/members"]
    {
        reach_all(person, path).await;
    }

    // The first stop skips the navigation, and the enter key sends a form.
    person.open("/agencies/acme/keys/new").await;
    person.page.press("Tab").await;
    let first = person.page.evaluate("document.activeElement.textContent").await;
    assert_eq!(text(&first), "Skip to the content");
    person.page.press("Enter").await;
    person.page.press("Tab").await;
    let next = person.page.evaluate("document.activeElement.id").await;
    assert_eq!(text(&next), "name", "the first field of the content");
    person.page.fill("name", "Typed by keyboard").await;
    let before = person.page.path().await;
    person.page.press("Enter").await;
    tests::eventually("the form is sent", tests::MAX_WAIT, async || {
        let shown = person.page.try_evaluate("document.body.innerText").await?;
        if text(&shown).contains("The key was created") { Ok(()) } else { Err(format!("{before}: {shown}")) }
    })
    .await;
}
