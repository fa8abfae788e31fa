//! The privileges of the programs in the database, as `sql/roles.txt` defines them.

use std::sync::LazyLock;

const TEXT: &str = include_str!("../../../sql/roles.txt");

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
}
