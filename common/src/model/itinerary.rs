//! The itinerary snapshot (D21b).

use super::text;
use serde_json::Value;

/// Lists what is wrong with a snapshot; empty when it is valid. `bytes` is the length of its JSON.
///
/// `title` and `days` are required, each day has a `title` and `items`, each item is an object with a `title`
/// and any further fields.
pub fn check_itinerary(snapshot: &Value, bytes: usize) -> Vec<String> {
    let mut errors = Vec::new();
    if bytes > text::ITINERARY_BYTES {
        errors.push("itinerary: must have at most 256 KiB".to_owned());
        return errors;
    }
    let Some(object) = snapshot.as_object() else {
        errors.push("itinerary: must be an object".to_owned());
        return errors;
    };
    check_title("", object.get("title"), &mut errors);
    match object.get("days").map(Value::as_array) {
        Some(Some(days)) => days.iter().enumerate().for_each(|(i, day)| check_day(i, day, &mut errors)),
        Some(None) => errors.push("days: must be an array".to_owned()),
        None => errors.push("days: is required".to_owned()),
    }
    errors
}

fn check_day(index: usize, day: &Value, errors: &mut Vec<String>) {
    let place = format!("days[{index}]");
    if !day.is_object() {
        errors.push(format!("{place}: must be an object"));
        return;
    }
    check_title(&format!("{place}."), day.get("title"), errors);
    let Some(items) = day.get("items").and_then(Value::as_array) else {
        errors.push(format!("{place}.items: must be an array"));
        return;
    };
    for (i, item) in items.iter().enumerate() {
        if item.is_object() {
            check_title(&format!("{place}.items[{i}]."), item.get("title"), errors);
        } else {
            errors.push(format!("{place}.items[{i}]: must be an object"));
        }
    }
}

fn check_title(prefix: &str, title: Option<&Value>, errors: &mut Vec<String>) {
    match title {
        None => errors.push(format!("{prefix}title: is required")),
        Some(Value::String(title)) if text::is_blank(title) => {
            errors.push(format!("{prefix}title: must not be empty"));
        }
        Some(Value::String(title)) if !text::fits(title, text::NAME) => {
            errors.push(format!("{prefix}title: must have at most 200 characters"));
        }
        Some(Value::String(_)) => {}
        Some(_) => errors.push(format!("{prefix}title: must be a string")),
    }
}
