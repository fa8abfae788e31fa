//! The programs under test, built from the sources as they are now.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Variables that cargo sets for this crate. Build scripts of other crates must not see them: some would run again.
const CRATE_VARIABLES: [&str; 17] = [
    "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_LINKS", "CARGO_MANIFEST_PATH", "CARGO_PKG_AUTHORS", "CARGO_PKG_DESCRIPTION",
    "CARGO_PKG_HOMEPAGE", "CARGO_PKG_LICENSE", "CARGO_PKG_LICENSE_FILE", "CARGO_PKG_NAME", "CARGO_PKG_README",
    "CARGO_PKG_REPOSITORY", "CARGO_PKG_RUST_VERSION", "CARGO_PKG_VERSION", "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR", "CARGO_PKG_VERSION_PATCH", "CARGO_PKG_VERSION_PRE",
];

/// The root directory of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace")
}

/// The path of a program of this workspace. The first call builds them all.
pub(crate) fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).join(name)
}

/// Cargo builds only what the tests link, and they link none of the programs. Returns the directory of the profile, which
/// `CONNECT_TEST_PROGRAMS` names if everything in it has just been built.
fn build() -> PathBuf {
    if let Some(built) = variable("CONNECT_TEST_PROGRAMS") {
        return built.into();
    }
    let own = std::env::current_exe().expect("the path of this test");
    // <target>/<profile>/deps/it-<hash>, or <target>/<profile>/connect-bench
    let beside = own.parent().expect("a build directory");
    let programs = if beside.ends_with("deps") { beside.parent().expect("a profile's directory") } else { beside };
    let programs = programs.to_owned();
    let profile = programs.file_name().and_then(|name| name.to_str()).expect("a profile's directory");
    let mut command = Command::new(variable("CARGO").as_deref().unwrap_or("cargo"));
    command.current_dir(root()).args(["build", "--quiet", "--workspace", "--bins"]);
    command.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
    command.arg("--target-dir").arg(programs.parent().expect("a target directory"));
    for name in CRATE_VARIABLES {
        command.env_remove(name);
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "the programs don't build");
    programs
}

#[expect(clippy::disallowed_methods, reason = "these are no settings of a program")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
