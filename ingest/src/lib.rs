//! connect-ingest: authenticates and validates requests, publishes them to RabbitMQ, and responds.
//!
//! It never writes tenants' records, holds no state that another copy of it would need, and never changes a body
//! between HTTP and the queue. It writes only replay entries (`replay_entries`), reports of refused tenants
//! (`intake_pressure`), uses and counts of keys, and why requests were refused.
//!
//! A request passes these modules in this order: `common::http` (connections), `http` (observability, violations of
//! HTTP), the routes of `server`, and `handlers`, which lead it through [`auth`], `admission`, `replay`, and `publish`
//! or `reads`, and have its refusal noted by `refused`. `server` starts them all. Which may use which, the test below
//! says; [`store`], which holds all SQL, uses none. Every refusal is a `Refusal` of [`refusal`].

pub(crate) mod admission;
pub mod auth;
pub(crate) mod bounded_map;
pub mod docs;
pub(crate) mod group_queue;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod publish;
pub(crate) mod reads;
pub mod refusal;
pub(crate) mod refused;
pub(crate) mod replay;
pub(crate) mod server;
pub mod settings;
pub mod store;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    /// From top to bottom: each may use those after it.
    const MODULES: [&str; 15] = [
        "server", "settings", "docs", "handlers", "refused", "publish", "reads", "replay", "admission", "auth", "http",
        "refusal", "store", "bounded_map", "group_queue",
    ];

    /// The text of a module's files, without those of tests.
    fn source(path: &Path) -> String {
        match fs::read_dir(path) {
            Ok(entries) => entries.map(|entry| source(&entry.unwrap().path())).collect(),
            Err(_) if path.ends_with("tests.rs") => String::new(),
            Err(_) => fs::read_to_string(path).unwrap(),
        }
    }

    #[test]
    fn a_module_uses_only_those_below_it_and_there_are_eight_floors() {
        let module = |line: &'static str| line.split_once("mod ")?.1.strip_suffix(';');
        let declared = include_str!("lib.rs").lines().take_while(|line| !line.starts_with("#[cfg")).filter_map(module);
        assert_eq!(declared.collect::<BTreeSet<_>>(), BTreeSet::from(MODULES));
        let mut floors = BTreeMap::new();
        for (place, module) in MODULES.iter().enumerate().rev() {
            let mut floor = 1;
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module);
            let file = directory.with_extension("rs");
            for path in source(if file.exists() { &file } else { &directory }).split("crate::").skip(1) {
                let used = path.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap();
                assert!(MODULES[place..].contains(&used), "{module} uses {used}");
                floor = floor.max(1 + floors.get(used).unwrap_or(&0));
            }
            floors.insert(*module, floor);
        }
        assert!(floors.values().all(|floor| *floor <= 8), "{floors:?}");
    }
}
