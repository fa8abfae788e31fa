//! The `Idempotency-Key` of records POSTs, as far as replay protection needs it (D3).

/// 1 to 200 printable ASCII characters (specification: Headers on records routes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// `None` when the text can't be one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=200).contains(&text.len());
        let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
        (fits && printable).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_200_printable_characters() {
        assert!(IdempotencyKey::parse("a b~").is_some() && IdempotencyKey::parse(&"k".repeat(200)).is_some());
        for wrong in ["", "a\tb", "a\u{7f}", "é", &"k".repeat(201)] {
            assert_eq!(IdempotencyKey::parse(wrong), None);
        }
    }
}
