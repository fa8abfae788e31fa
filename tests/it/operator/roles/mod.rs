//! The roles of the programs in the database and their users in the broker (`sql/roles.txt`).
//!
//! Every test of the programs runs under these roles (`tests::roles`), so the whole suite shows that the privileges suffice.

mod broker;
mod migrate;
mod statements;

use admin::roles::{Program, RolePrefix};
use tests::roles::ROLE_PREFIX;

/// The role of a program in the databases of the tests.
fn role(program: Program) -> String {
    RolePrefix::parse(ROLE_PREFIX).expect("a prefix").role(program)
}
