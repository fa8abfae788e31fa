//! Examples that are called wrongly say so in a line, and do nothing.

use super::LANGUAGES;
use futures_util::future::join_all;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tests::Ran;

const CALLS: [&str; 4] = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];

/// Runs an example that must say what is missing.
async fn says(file: &str, arguments: &[&OsStr], settings: &[(String, String)], missing: &str) {
    let ran = Ran::example(file, arguments, settings, b"{}").await;
    assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{file} without {missing}: {ran:?}");
    let line = ran.errors.strip_suffix('\n').expect("a line");
    assert!(line.starts_with("usage: ") && !line.contains('\n'), "{file}: {ran:?}");
    assert!(line.ends_with(&format!(" missing or wrong: {missing}")), "{file} without {missing}: {ran:?}");
}

/// These variables, all set but `without`, which is empty.
fn settings(names: &[&str], without: &str) -> Vec<(String, String)> {
    // Where nobody listens.
    let value = |name: &str| if name == without { "" } else { "http://127.0.0.1:1" };
    let value = |name: &str| if name == "CONNECT_TENANT" && name != without { "acme" } else { value(name) };
    names.iter().map(|name| ((*name).to_owned(), value(name).to_owned())).collect()
}

#[tokio::test]
async fn a_call_without_argument_or_setting_names_what_is_missing_and_sends_nothing() {
    for (name, argument) in [("send-batch", "ENQUIRY"), ("create-lead", "ORDER")] {
        join_all(LANGUAGES.map(async |language| {
            let file = format!("{name}.{language}");
            says(&file, &[], &settings(&CALLS, ""), argument).await;
            for bad in ["", "web \"1", "a\nb", "é"].map(OsStr::new) {
                says(&file, &[bad], &settings(&CALLS, ""), argument).await;
            }
            for setting in CALLS {
                says(&file, &[OsStr::new("web-1")], &settings(&CALLS, setting), setting).await;
            }
            let both = format!("{argument} CONNECT_SECRET");
            says(&file, &[], &settings(&CALLS, "CONNECT_SECRET"), &both).await;
        }))
        .await;
    }
    let mut quoted = settings(&CALLS, "");
    quoted[1].1 = "a\"b".to_owned();
    says("send-batch.sh", &[OsStr::new("web-1")], &quoted, "CONNECT_TENANT").await;
}

#[tokio::test]
async fn a_verification_without_signature_or_secret_names_what_is_missing() {
    let names = ["CONNECT_WEBHOOK_SECRET"];
    let signature = OsStr::new("t=1,v1=00");
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        says(&file, &[], &settings(&names, ""), "SIGNATURE").await;
        says(&file, &[signature, OsStr::new("now")], &settings(&names, ""), "NOW").await;
        says(&file, &[signature], &settings(&names, names[0]), names[0]).await;
    }
}

#[tokio::test]
async fn a_signature_that_is_no_text_is_refused_like_any_other() {
    let signature = OsStr::from_bytes(b"t=1767225600,v1=\xff\xfe");
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        let settings = settings(&["CONNECT_WEBHOOK_SECRET"], "");
        let ran = Ran::example(&file, &[signature, OsStr::new("1767225600")], &settings, b"{}").await;
        let refused = "refused: signed with another secret, or changed on its way\n";
        assert_eq!((ran.code, ran.output.as_str(), ran.errors.as_str()), (Some(1), "", refused), "{file}");
    }
}
