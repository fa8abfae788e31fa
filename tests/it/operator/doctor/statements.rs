//! The statements of the programs that `connectctl doctor` explains.

use common::db::Sql;

/// What separates statements in the file.
const SEPARATOR: &str = "\n-- ----\n";

/// connectctl does not link the programs, so it has a copy of their statements.
#[test]
fn the_file_has_the_statements_of_the_programs() {
    let programs: [&[&[Sql]]; 3] =
        [ingest::store::STATEMENTS, worker::store::STATEMENTS, dispatcher::store::STATEMENTS];
    let all: Vec<&str> =
        programs.into_iter().flatten().copied().flatten().map(|sql| sql.as_str().trim()).collect();
    let expected = format!("{}\n", all.join(SEPARATOR));
    if include_str!("../../../../admin/src/doctor/statements.sql") != expected {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/statements.sql");
        std::fs::write(path, expected).expect("the directory of build output");
        panic!("statements have changed: cp target/statements.sql admin/src/doctor/statements.sql");
    }
}
