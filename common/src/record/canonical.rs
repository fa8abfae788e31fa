//! The canonical form of a body: two bodies are the same (D17) if their canonical forms are equal.

use super::tree::{Fields, Node};

/// 2 to the power of 64, which no 64-bit integer reaches.
const INTEGERS_END: f64 = 18_446_744_073_709_551_616.0;

/// The canonical JSON text of a body: fields sorted by name, no white space, no unnecessary escapes, and numbers by their
/// value, so that `1`, `1.0` and `1e0` are equal.
///
/// Whole numbers of up to 64 bits are compared exactly, others as doubles. Repeated fields keep their order. Text that is not
/// JSON is returned unchanged.
pub fn canonical(body: &[u8]) -> Vec<u8> {
    let Ok(tree) = Node::parse(body) else { return body.to_vec() };
    let mut form = String::with_capacity(body.len());
    write_node(&tree, &mut form);
    form.into_bytes()
}

fn write_node(node: &Node, form: &mut String) {
    match node {
        Node::Null => form.push_str("null"),
        Node::Boolean(value) => form.push_str(if *value { "true" } else { "false" }),
        Node::Whole(number) => form.push_str(&number.to_string()),
        Node::Negative(number) => form.push_str(&number.to_string()),
        Node::Float(number) => write_float(*number, form),
        Node::Text(text) => write_text(text, form),
        Node::Array(items) => write_list('[', items, ']', form, write_node),
        Node::Object(Fields(fields)) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name);
            write_list('{', fields, '}', form, |(name, value), form| {
                write_text(name, form);
                form.push(':');
                write_node(value, form);
            });
        }
    }
}

/// A whole number within the range of 64-bit integers is written as an integer, any other in its shortest form.
fn write_float(number: f64, form: &mut String) {
    let number = number + 0.0; // negative zero is zero
    if number.fract() == 0.0 && number.abs() < INTEGERS_END {
        form.push_str(&number.to_string());
    } else {
        form.push_str(&serde_json::Value::from(number).to_string());
    }
}

fn write_list<T>(
    open: char, items: impl IntoIterator<Item = T>, close: char, form: &mut String, write: impl Fn(T, &mut String),
) {
    form.push(open);
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            form.push(',');
        }
        write(item, form);
    }
    form.push(close);
}

fn write_text(text: &str, form: &mut String) {
    form.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        canonical(one.as_bytes()) == canonical(other.as_bytes())
    }

    #[test]
    fn ignores_field_order_white_space_escapes_and_number_notation() {
        for (one, other) in [
            (r#"{"a":1,"b":{"c":[true,null],"d":"x"}}"#, "{ \"b\": {\"d\":\"x\",\n\"c\":[ true , null ]} , \"a\":1 }"),
            (r#"{"ä":"\u00e4\/\n"}"#, r#"{"\u00e4":"ä/\u000a"}"#),
            ("[1, 100, 0, 0.5, 12e-1]", "[1.0, 1e2, -0, 5e-1, 1.20]"),
            ("[18446744073709551615, -9223372036854775808]", "[18446744073709551615, -9223372036854775808]"),
            ("[10000000000000000000, 18446744073709551616, 1e300]", "[1e19, 1.8446744073709551616e19, 10e299]"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn bodies_with_different_values_have_different_forms() {
        let different = [
            r#"{"a":1} {"a":"1"}"#, r#"{"a":1} {"a":2}"#, r#"{"a":1} {"A":1}"#, r#"{"a":[]} {"a":{}}"#,
            r#"{"a":null} {}"#, "[1,2] [2,1]", "[[1],2] [1,[2]]", r#"["a,b"] ["a","b"]"#, r#"["a\"b"] ["a\\\"b"]"#,
            "9007199254740993 9007199254740992", "0.1 0.2", "1 -1", r#"{"a":1,"a":2} {"a":2,"a":1}"#, "{ {}",
        ];
        for (one, other) in different.map(|pair| pair.split_once(' ').unwrap()) {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_unchanged() {
        for body in [&b""[..], b"{\"a\":", b"\xff", b"{} {}"] {
            assert_eq!(canonical(body), body);
        }
    }
}
