//! Mailbox providers beyond the maintained list (D37).

use super::{Environment, Section, SettingError, Variable, error};
use crate::model::{add_mailbox_providers, ascii_domain};
use crate::variables;

const NAME: &str = "CONNECT_MAILBOX_PROVIDERS";

/// Domains of mailbox providers that the operator has added, in their ASCII form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailboxSettings(Vec<String>);

impl MailboxSettings {
    /// Makes the rules of this process know the domains. To be called once, at its start.
    pub fn apply(&self) {
        add_mailbox_providers(self.0.iter().cloned());
    }
}

impl Section for MailboxSettings {
    const VARIABLES: &'static [Variable] = variables! {
        NAME => optional, "further domains of public mailbox providers, separated by commas: addresses there never belong to a company";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let listed = env.optional::<Self, String>(NAME)?.unwrap_or_default();
        let names = listed.split(',').map(str::trim).filter(|name| !name.is_empty());
        let domain = |name: &str| {
            ascii_domain(name)
                .ok_or_else(|| error(NAME, "must be domain names such as example.com, separated by commas"))
        };
        names.map(domain).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_separated_by_commas() {
        let read = |text| MailboxSettings::from_env(&Environment::from_pairs(&[(NAME, text)]));
        let domains = ["mail.example", "xn--mnchen-3ya.example"].map(str::to_owned).to_vec();
        assert_eq!(read(" mail.example,münchen.example, "), Ok(MailboxSettings(domains)));
        assert_eq!(read(""), Ok(MailboxSettings::default()));
        assert!(read("a b").is_err());
    }
}
