//! Length limits of texts, in Unicode characters unless stated otherwise (D6, D21a), and which texts are empty (D40).

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Names and titles.
pub const NAME: usize = 200;
/// Destination, company, change summary.
pub const LINE: usize = 500;
/// URLs of pages in the marketing block, with their query parameters.
pub const PAGE: usize = 2_000;
/// Budget notes.
pub const NOTES: usize = 2_000;
/// A customer's message.
pub const MESSAGE: usize = 10_000;
/// The caller's own ids of persons and leads.
pub const EXTERNAL_ID: usize = 200;
/// A phone as sent.
pub const PHONE: usize = 40;
/// An email as sent.
pub const EMAIL: usize = 320;
/// `eventId`, `tenant`, `origin`.
pub const ENVELOPE_ID: usize = 100;
/// `bookingRef`, also of requests by advisors.
pub const BOOKING_REF: usize = 100;
/// Travel dates as free text.
pub const DATES: usize = 200;
/// Maximum number of items in the list of a traveler's destinations, or of the constraints.
pub const LIST_ITEMS: usize = 50;
/// An object of a traveler's profile, in bytes of JSON.
pub const PROFILE_BYTES: usize = 64 * 1024;
/// An itinerary snapshot, in bytes of JSON.
pub const ITINERARY_BYTES: usize = 256 * 1024;

/// Whether `text` has at most `max` characters. Counts them only if the byte length does not decide it.
pub fn fits(text: &str, max: usize) -> bool {
    text.len() <= max || text.chars().count() <= max
}

/// A text in NFC, so that texts that look the same are the same.
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// Whether a text has only white space and invisible characters, which counts as empty (D40).
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_invisible(c))
}

/// Whether a character shows nothing: controls, format characters, and the letters, marks and symbols that fill space.
pub fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let fills = matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}'
    );
    fills
        || matches!(
            c.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::SpaceSeparator
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
        )
}

/// Whether a character is invisible and no blank: it could change how a terminal or a reader takes the text around it.
fn is_hidden(c: char) -> bool {
    is_invisible(c) && c.general_category() != GeneralCategory::SpaceSeparator
}

/// A text as it is safe for a terminal or a spreadsheet: with an escape such as `\n` or `\u{202e}` for each control, mark of direction
/// and other character that is not seen.
pub fn escaped(text: &str) -> String {
    let escape = |shown: String, c: char| {
        if is_hidden(c) { shown + &c.escape_default().to_string() } else { shown + c.encode_utf8(&mut [0; 4]) }
    };
    text.chars().fold(String::with_capacity(text.len()), escape)
}

/// Serialized JSON, with an escape such as `\u202e` for each character that [`escaped`] escapes. JSON itself has escaped those before
/// the blank; the line breaks between values stay.
pub fn escaped_json(json: String) -> String {
    let is_raw = |c: char| c > '\u{7e}' && is_hidden(c);
    if !json.contains(is_raw) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_raw(c) {
            escaped.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_invisible_characters_are_blank() {
        for blank in [
            "", " \t", "\u{a0}", "\u{200b}\u{200d}", "\u{feff} \u{2060}", "\u{3164}", "\u{2800}", "\u{ad}\u{1}",
            "\u{fe0f}\u{e0041}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for shown in ["a", "\u{200b}a", "\u{301}", "0", "-", "\u{e000}"] {
            assert!(!is_blank(shown), "{shown:?}");
        }
    }

    #[test]
    fn what_is_not_seen_is_escaped_in_texts_and_in_json() {
        let hidden = [
            '\0', '\t', '\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{200b}', '\u{202e}', '\u{2028}', '\u{2066}', '\u{feff}',
            '\u{e0041}',
        ];
        let escapes = r"\u{0} \t \n \u{1b} \u{7f} \u{9b} \u{200b} \u{202e} \u{2028} \u{2066} \u{feff} \u{e0041}";
        for (c, expected) in hidden.into_iter().zip(escapes.split(' ')) {
            assert_eq!(escaped(&format!("a{c}b")), format!("a{expected}b"));
            let json = escaped_json(serde_json::to_string(&format!("\"{c}\\")).unwrap());
            assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), format!("\"{c}\\"));
        }
        for shown in ["Ana \u{a0}Müller", "日本\u{3000}語", "e\u{301}", "\\n"] {
            assert_eq!(escaped(shown), shown);
        }
        assert_eq!(escaped_json("{\n  \"a\": 1\n}".to_owned()), "{\n  \"a\": 1\n}");
    }
}
