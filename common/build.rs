//! Writes the table of migrations that `db::migrate` compiles in: one entry for each `sql/V<version>__<name>.sql`.

use std::fmt::Write;
use std::path::Path;

const DIRECTORY: &str = "../sql";

fn main() {
    println!("cargo:rerun-if-changed={DIRECTORY}");
    let mut migrations: Vec<(i32, String, String)> = std::fs::read_dir(DIRECTORY)
        .expect("the directory of migrations can be listed")
        .filter_map(|entry| {
            let path = entry.expect("a directory entry").path();
            let stem = path.file_stem()?.to_str()?.to_owned();
            (path.extension()? == "sql").then_some(())?;
            let path = path.canonicalize().expect("a path").to_str().expect("a path in UTF-8").to_owned();
            let (version, name) = stem.strip_prefix('V').and_then(|rest| rest.split_once("__"))?;
            let version = version.parse().unwrap_or_else(|_| panic!("{stem}: the version is not a number"));
            Some((version, name.to_owned(), path))
        })
        .collect();
    migrations.sort_unstable();
    let mut table = String::from("&[\n");
    for (version, name, path) in migrations {
        writeln!(table, "    Migration::new({version}, {name:?}, include_str!({path:?})),")
            .expect("a string can be written to");
    }
    table.push_str("]\n");
    let output = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&output).join("migrations.rs"), table).expect("OUT_DIR can be written to");
}
