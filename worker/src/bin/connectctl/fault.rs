//! What a person is told when a command fails: one line, without values from the database's details.

use common::db::MigrateError;
use std::error::Error;
use tokio_postgres::error::SqlState;

/// The causes of `error`, outermost first, in one line.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let (part, complete) = part(cause);
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        // Some errors repeat their source in their own text.
        if !parts.last().is_some_and(|last| last.ends_with(&part)) {
            parts.push(part);
        }
        if complete {
            break;
        }
    }
    parts.join(": ")
}

/// The text of one cause, and whether it says all that its own causes would.
fn part(cause: &(dyn Error + 'static)) -> (String, bool) {
    if let Some(MigrateError::Migration(error)) = cause.downcast_ref() {
        return (format!("migration failed: {error}"), false);
    }
    let Some(db) = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error)
    else {
        return (cause.to_string(), false);
    };
    if *db.code() == SqlState::UNDEFINED_TABLE || *db.code() == SqlState::UNDEFINED_COLUMN {
        return (format!("the schema is not up to date ({}): run connectctl migrate", db.message()), true);
    }
    (format!("the database refused: {} ({})", db.message(), db.code().code()), true)
}

/// Whether a statement failed because of the constraint `name`.
pub(crate) fn violates(error: &tokio_postgres::Error, name: &str) -> bool {
    error.as_db_error().and_then(|db| db.constraint()) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn causes_stand_in_one_line_and_none_twice() {
        let error = anyhow!("connection refused\n(os error 111)").context("can't reach\nthe database");
        assert_eq!(describe(&error), "can't reach the database: connection refused (os error 111)");
        let repeated = anyhow!("b").context("a: b");
        assert_eq!(describe(&repeated), "a: b");
    }
}
