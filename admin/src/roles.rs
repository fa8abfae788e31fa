//! The roles of the programs in the database, and their users in the broker: each program has only what it needs.

use crate::store::roles as store;
use crate::{AdminError, Result};
use serde::Serialize;
use std::sync::LazyLock;
use tokio_postgres::GenericClient;

/// The privileges of the programs in the database.
const TEXT: &str = include_str!("../../sql/roles.txt");

/// What a privilege refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table; some privileges are limited to some of its columns.
    Table,
    /// A function, with the types of its arguments.
    Function,
}

/// A table or function, and what each program may do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Whether it is a table or a function.
    pub kind: ObjectKind,
    /// Such as `tenants`, or `sealed_value_counts()`.
    pub name: &'static str,
    /// Privileges as SQL names them, such as `SELECT` or `SELECT (prefix)`; in the order of [`Program::ALL`].
    pub privileges: [Vec<String>; Program::ALL.len()],
}

common::named! {
    /// A program with a role of its own.
    /// The order is that of the columns of `sql/roles.txt`; a name is the last part of those of the role and user.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Program {
        /// `connect-ingest`
        Ingest = "ingest",
        /// `connect-worker`
        Worker = "worker",
        /// `connect-dispatcher`
        Dispatcher = "dispatcher",
        /// `connect-console`
        Console = "console",
    }
}

/// All tables and functions of the definition.
pub fn objects() -> &'static [Object] {
    static OBJECTS: LazyLock<Vec<Object>> = LazyLock::new(|| {
        let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| object(line).unwrap_or_else(|| panic!("sql/roles.txt: {line}"))).collect()
    });
    &OBJECTS
}

/// Parses a line; `None` if it is malformed.
fn object(line: &'static str) -> Option<Object> {
    let mut words = line.split_whitespace();
    let kind = match words.next()? {
        "table" => ObjectKind::Table,
        "function" => ObjectKind::Function,
        _ => return None,
    };
    let name = words.next()?;
    let cells: Vec<Vec<String>> = words.map(|cell| privileges(kind, cell)).collect::<Option<_>>()?;
    Some(Object { kind, name, privileges: cells.try_into().ok()? })
}

/// Parses a cell such as `-`, `SIU` or `SU(a,b)`.
fn privileges(kind: ObjectKind, cell: &str) -> Option<Vec<String>> {
    if cell == "-" {
        return Some(Vec::new());
    }
    let mut found = Vec::new();
    let mut rest = cell;
    while let Some(letter) = rest.chars().next() {
        let name = match (kind, letter) {
            (ObjectKind::Table, 'S') => "SELECT",
            (ObjectKind::Table, 'I') => "INSERT",
            (ObjectKind::Table, 'U') => "UPDATE",
            (ObjectKind::Table, 'D') => "DELETE",
            (ObjectKind::Function, 'X') => "EXECUTE",
            _ => return None,
        };
        rest = &rest[1..];
        let columns = if rest.starts_with('(') {
            let (columns, after) = rest.split_once(')')?;
            rest = after;
            format!(" {columns})").replace(',', ", ")
        } else {
            String::new()
        };
        found.push(format!("{name}{columns}"));
    }
    Some(found)
}

/// The first part of the roles' names, unless another one is chosen.
pub const DEFAULT_PREFIX: &str = "connect";

/// Longest first part of a name; Postgres cuts names at 63 bytes.
const PREFIX_MAX: usize = 40;

/// The first part of the names of roles and users: lower-case letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePrefix(String);

/// What a role may do with a table or function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Name of the role.
    pub role: String,
    /// The table, or the function with the types of its arguments.
    pub object: &'static str,
    /// As SQL names them: `SELECT`, `SELECT (prefix)`, `EXECUTE`.
    pub privileges: &'static [String],
}

impl RolePrefix {
    /// Parses a prefix.
    pub fn parse(text: &str) -> Result<Self> {
        let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_plain || text.len() > PREFIX_MAX {
            return Err(AdminError::InvalidInput(format!(
                "the role prefix must begin with a letter and have at most {PREFIX_MAX} lower-case letters, digits and '_'"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The prefix as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a program's role.
    pub fn role(&self, program: Program) -> String {
        format!("{}_{}", self.0, program.as_str())
    }
}

/// What each role may do, by role and object.
pub fn grants(prefix: &RolePrefix) -> Vec<Grant> {
    let programs = Program::ALL.into_iter().enumerate();
    let of = |(at, program): (usize, Program)| {
        let role = prefix.role(program);
        let objects = objects().iter().filter(move |object| !object.privileges[at].is_empty());
        objects.map(move |object| Grant { role: role.clone(), object: object.name, privileges: &object.privileges[at] })
    };
    programs.flat_map(of).collect()
}

/// Creates the roles that do not exist, which cannot log in, and gives all of them exactly the privileges of the definition in
/// this database. Returns the names of the roles. The schema must have been migrated. In one transaction, so that running programs
/// never lack a privilege.
pub(crate) async fn apply(client: &impl GenericClient, prefix: &RolePrefix) -> Result<Vec<String>> {
    let roles: Vec<String> = Program::ALL.into_iter().map(|program| prefix.role(program)).collect();
    for role in store::missing(client, &roles).await? {
        store::create(client, &role).await.map_err(|source| AdminError::RoleNotCreated { role, source })?;
    }
    let keyword = |object: &Object| match object.kind {
        ObjectKind::Table => "TABLE",
        ObjectKind::Function => "FUNCTION",
    };
    let all = roles.join(", ");
    let mut statements = Vec::new();
    for object in objects() {
        statements.push(format!("REVOKE ALL ON {} {} FROM {all}", keyword(object), object.name));
    }
    for Grant { role, object, privileges } in grants(prefix) {
        let kind = if object.ends_with(')') { "FUNCTION" } else { "TABLE" };
        statements.push(format!("GRANT {} ON {kind} {object} TO {role}", privileges.join(", ")));
    }
    store::apply(client, &all, &statements).await?;
    Ok(roles)
}

common::named! {
    /// Who connects to the broker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BrokerUser {
        /// `connect-ingest`
        Ingest = "ingest",
        /// `connect-worker`
        Worker = "worker",
        /// `connect-dispatcher`
        Dispatcher = "dispatcher",
        /// `connectctl` and `connect-console`
        Operator = "operator",
    }
}

/// What a user may do, as regular expressions on the names of queues and exchanges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokerPermissions {
    /// Name of the user.
    pub user: String,
    /// Declare and delete.
    pub configure: String,
    /// Publish.
    pub write: String,
    /// Consume, count and purge.
    pub read: String,
}

impl BrokerUser {
    /// Queues that it declares, and those that it consumes, without prefix.
    const fn queues(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            // It publishes, and gets replies by direct reply-to, which needs no permission.
            Self::Ingest => (None, None),
            Self::Worker => {
                let consumed = Some(r"(events|records|crm)(\.dead)?");
                (consumed, consumed)
            }
            // It only publishes notices.
            Self::Dispatcher => (Some(r"webhooks\.dead"), None),
            Self::Operator => (Some(".+"), Some(".+")),
        }
    }
}

/// The permissions of each user, whose name begins with `user_prefix`, on the queues with this prefix.
pub fn broker_permissions(user_prefix: &str, queue_prefix: &str) -> Vec<BrokerPermissions> {
    // A prefix has letters, digits, '-', '_' and '.' only.
    let prefix = queue_prefix.replace('.', r"\.");
    let names = |queues: Option<&str>| match queues {
        Some(queues) => format!(r"^{prefix}\.{queues}$"),
        None => "^$".to_owned(),
    };
    let of = |user: BrokerUser| {
        let (configure, read) = user.queues();
        BrokerPermissions {
            user: format!("{user_prefix}_{}", user.as_str()),
            configure: names(configure),
            write: r"^amq\.default$".to_owned(),
            read: names(read),
        }
    };
    BrokerUser::ALL.map(of).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_privileges_of_tables_and_columns() {
        let of = |cell| privileges(ObjectKind::Table, cell).map(|found| found.join("; "));
        assert_eq!(of("-").as_deref(), Some(""));
        assert_eq!(of("SIUD").as_deref(), Some("SELECT; INSERT; UPDATE; DELETE"));
        assert_eq!(of("S(a,b)U(c)I").as_deref(), Some("SELECT (a, b); UPDATE (c); INSERT"));
        assert_eq!((of("X"), of("S(a"), of("s")), (None, None, None));
        assert_eq!(privileges(ObjectKind::Function, "X"), Some(vec!["EXECUTE".to_owned()]));
        assert_eq!(privileges(ObjectKind::Function, "S"), None);
    }

    #[test]
    fn a_line_has_a_cell_for_each_program() {
        assert!(object("table t S I U D").is_some());
        assert!(object("table t S I U").is_none() && object("table t S I U D S").is_none());
        assert!(object("view t S I U D").is_none());
    }

    #[test]
    fn the_file_is_well_formed_and_sorted() {
        let names: Vec<_> = objects().iter().map(|object| (object.kind == ObjectKind::Function, object.name)).collect();
        assert!(names.is_sorted() && names.len() > 30, "{names:?}");
    }

    #[test]
    fn a_prefix_needs_no_quotes() {
        for prefix in ["connect", "connect_eu1"] {
            assert!(RolePrefix::parse(prefix).is_ok(), "{prefix}");
        }
        for prefix in ["", "1a", "_a", "Connect", "a-b", "a\"b", "a;b", &"a".repeat(41)] {
            assert!(RolePrefix::parse(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn no_role_but_the_console_may_change_keys_or_tenants() {
        for Grant { role, object, privileges } in grants(&RolePrefix::parse("c").unwrap()) {
            if ["api_keys", "subscriptions", "tenants", "members"].contains(&object) && role != "c_console" {
                assert!(privileges.iter().all(|privilege| privilege.starts_with("SELECT")), "{role}: {object}");
            }
        }
    }

    #[test]
    fn permissions_are_limited_to_the_prefix() {
        let all = broker_permissions("connect", "eu.live");
        let [ingest, worker, ..] = all.as_slice() else { panic!("{all:?}") };
        let expected = ("connect_ingest", "^$", "^$");
        assert_eq!((ingest.user.as_str(), ingest.configure.as_str(), ingest.read.as_str()), expected);
        assert_eq!(worker.configure, r"^eu\.live\.(events|records|crm)(\.dead)?$");
    }
}
