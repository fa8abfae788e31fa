//! The text of a failed command's error: one line, with a hint about the command that helps.

use admin::{AdminError, describe};

/// The error and its causes, outermost first, in one line.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref().map(hint).unwrap_or_default();
    format!("{}{hint}", describe(&**error))
}

/// What is added to the text of an operation's error, for the user of the command line.
fn hint(error: &AdminError) -> String {
    if let AdminError::NoReply { id } = error {
        return format!("; repeat the command with --message-id {id}");
    }
    let list = if matches!(error, AdminError::TenantNotFound(_)) {
        "tenant"
    } else if matches!(error, AdminError::MemberNotFound { .. }) {
        "member"
    } else if matches!(error, AdminError::KeyNotFound(_) | AdminError::KeyNotActive(_)) {
        "key"
    } else {
        return String::new();
    };
    format!("; see connectctl {list} list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use uuid::Uuid;

    #[test]
    fn causes_are_joined_in_one_line() {
        let error = anyhow!("connection refused\n(os error 111)").context("cannot reach\nthe database");
        assert_eq!(text(&error), "cannot reach the database: connection refused (os error 111)");
    }

    #[test]
    fn an_error_names_the_command_that_helps() {
        let error = anyhow::Error::from(AdminError::TenantNotFound("acme".to_owned()));
        assert_eq!(text(&error), "tenant \"acme\" does not exist; see connectctl tenant list");
        let error = anyhow::Error::from(AdminError::NoReply { id: Uuid::nil() });
        assert!(text(&error).ends_with(&format!("; repeat the command with --message-id {}", Uuid::nil())));
    }
}
