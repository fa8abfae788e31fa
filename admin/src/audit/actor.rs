//! Who performs an operation.

use crate::identity::{FormResult, SentForm};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// What the kernel gives as the login of a process that descends from no login.
const NO_LOGIN: u32 = u32::MAX;
/// Longest name of an actor, in characters.
const NAME_MAX: usize = 200;

common::named! {
    /// The interface through which an operator works. Names are stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Interface {
        /// The program `connectctl`.
        Connectctl = "connectctl",
        /// The settings area in the browser.
        Console = "console",
    }
}

/// Who performs an operation, and through which interface. Each operation that changes something takes one, and records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    name: String,
    interface: Interface,
    form: Option<(SentForm, FormResult)>,
}

impl Actor {
    /// The user of the operating system that runs this process, for the command line. After `sudo` or `su` it is the user who logged in,
    /// followed by the one that the process runs as: `ana as root`.
    ///
    /// A user without a name, as in a container, is `uid 10001`.
    pub fn operating_system_user() -> Self {
        // Of the process itself: /proc/self belongs to its user.
        let own = fs::metadata("/proc/self").map_or(NO_LOGIN, |process| process.uid());
        let login = fs::read_to_string("/proc/self/loginuid").ok().and_then(|uid| uid.trim().parse().ok());
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::new(&user(&users, own, login.unwrap_or(NO_LOGIN)), Interface::Connectctl)
    }

    /// An administrator who is signed in to the console.
    pub fn signed_in(name: &str) -> Self {
        Self::new(name, Interface::Console)
    }

    /// The same person, who has sent a form: it is spent by the next operation, and leads to `result`.
    pub fn with_form(&self, form: &SentForm, result: FormResult) -> Self {
        Self { form: Some((form.clone(), result)), ..self.clone() }
    }

    fn new(name: &str, interface: Interface) -> Self {
        let shown = name.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self { name: shown.take(NAME_MAX).collect(), interface, form: None }
    }

    /// The name that is recorded: at most 200 characters, without control characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The form that the operation spends, and what it leads to.
    pub(super) const fn form(&self) -> Option<&(SentForm, FormResult)> {
        self.form.as_ref()
    }

    /// The interface that is recorded.
    pub const fn interface(&self) -> Interface {
        self.interface
    }
}

/// The user who logged in, and the one that the process runs as if it is another one. `users` is in the format of `/etc/passwd`.
fn user(users: &str, own: u32, login: u32) -> String {
    if login == NO_LOGIN || login == own {
        return user_name(users, own);
    }
    format!("{} as {}", user_name(users, login), user_name(users, own))
}

fn user_name(users: &str, uid: u32) -> String {
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000:Ana,,,:/home/ana:/bin/sh\nbroken\n";

    #[test]
    fn a_user_has_the_name_of_the_operating_system() {
        assert_eq!(user(USERS, 1000, NO_LOGIN), "ana");
        assert_eq!(user(USERS, 1000, 1000), "ana");
        assert_eq!(user(USERS, 10_001, NO_LOGIN), "uid 10001");
        assert_eq!(user("", 0, NO_LOGIN), "uid 0");
    }

    #[test]
    fn who_became_another_user_is_named_as_well() {
        assert_eq!(user(USERS, 0, 1000), "ana as root");
        assert_eq!(user(USERS, 0, 5), "uid 5 as root");
    }

    #[test]
    fn the_user_of_this_process_has_a_name() {
        let actor = Actor::operating_system_user();
        assert!(!actor.name().is_empty() && actor.interface() == Interface::Connectctl, "{actor:?}");
    }

    #[test]
    fn names_are_bounded_and_have_no_control_characters() {
        let actor = Actor::signed_in(&format!("a\nb{}", "x".repeat(300)));
        assert!(actor.name().starts_with("a bx") && actor.name().chars().count() == NAME_MAX);
        assert_eq!(actor.interface(), Interface::Console);
    }
}
