//! Converts the description of the API to JSON, and unpacks Swagger UI, which shows it.

use serde_norway::{Mapping, Value};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::PathBuf;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;

/// The field that has the parts of the document to copy.
const PARTS: &str = "x-parts";

#[expect(clippy::disallowed_methods, reason = "no setting of the program: Cargo says where files go")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=openapi.yaml");
    let directory = PathBuf::from(std::env::var("OUT_DIR")?);

    let document: Mapping = serde_norway::from_str(&fs::read_to_string("openapi.yaml")?)?;
    let served = document.into_iter().filter(|(name, _)| name != PARTS).collect();
    let json = serde_json::to_vec(&merged(Value::Mapping(served)))?;
    fs::write(directory.join("openapi.json"), json)?;

    let mut archive = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    for name in ["swagger-ui.css", "swagger-ui-bundle.js"] {
        let mut paths = archive.file_names().filter_map(Result::ok);
        let path = paths.find(|path| path.split('/').skip(1).eq(["dist", name]));
        let path = path.ok_or("Swagger UI has other files")?.into_owned();
        drop(paths);
        io::copy(&mut archive.by_name(&path)?, &mut File::create(directory.join(name))?)?;
    }
    Ok(())
}

/// The value with the fields of each `<<` in its place. Fields beside it take precedence.
fn merged(value: Value) -> Value {
    match value {
        Value::Mapping(fields) => {
            let mut all = Mapping::new();
            for (name, value) in fields {
                match (name.as_str(), merged(value)) {
                    (Some("<<"), Value::Mapping(parts)) => all.extend(parts),
                    (_, value) => drop(all.insert(name, value)),
                }
            }
            Value::Mapping(all)
        }
        Value::Sequence(items) => items.into_iter().map(merged).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Tagged(_) => value,
    }
}
