//! Fields of forms and of queries.

/// Maximum number of fields of a form or query.
const FIELDS_MAX: usize = 200;

/// Names and values in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses `application/x-www-form-urlencoded` text. `None` if there are too many fields, if one is not UTF-8, or has a NUL character,
    /// which Postgres cannot hold.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        percent_encoding::percent_decode(text).decode_utf8().ok()?;
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            if fields.len() == FIELDS_MAX || value.contains('\0') {
                return None;
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Some(Self(fields))
    }

    /// The first value of a field, trimmed; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.as_sent(name).trim()
    }

    /// The first value of a field, with the blanks around it; empty if there is none.
    pub(crate) fn as_sent(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// The value of a field, trimmed; `None` if it is missing or blank.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// All values of a field.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let is_named = move |field: &&(String, String)| field.0 == name;
        self.0.iter().filter(is_named).map(|(_, value)| value.as_str()).collect::<Vec<_>>().into_iter()
    }

    /// All values of a field, owned.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        self.all(name).map(str::to_owned).collect()
    }
}

/// `base` with a query of those fields that have a value.
pub(crate) fn with_query(base: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_may_repeat() {
        let fields = Fields::parse(b"name=+Ada+%26+Bo&scope=a&scope=b&empty=").unwrap();
        assert_eq!(fields.get("name"), "Ada & Bo");
        assert_eq!(fields.list("scope"), ["a", "b"]);
        assert_eq!((fields.optional("empty"), fields.get("missing")), (None, ""));
    }

    #[test]
    fn too_many_fields_nul_characters_and_other_text_than_utf_8_are_refused() {
        assert_eq!(Fields::parse(b"a=%00"), None);
        assert_eq!(Fields::parse(b"a=%ff"), None);
        assert_eq!(Fields::parse("a=1&".repeat(FIELDS_MAX + 1).as_bytes()), None);
    }

    #[test]
    fn a_query_is_encoded_and_leaves_out_blank_values() {
        assert_eq!(with_query("/a", &[("id", "x&y=#"), ("state", "")]), "/a?id=x%26y%3D%23");
        assert_eq!(with_query("/a", &[("id", "")]), "/a");
    }
}
