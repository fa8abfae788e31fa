//! Migrations are embedded when `common` is compiled: a new file in `sql` has it compiled again.

fn main() {
    println!("cargo:rerun-if-changed=../sql");
}
