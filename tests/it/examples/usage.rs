//! Examples that are called wrongly print one line of usage, and do nothing.

use super::LANGUAGES;
use futures_util::future::join_all;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tests::CommandOutput;

const CALLS: [&str; 4] = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];

/// Runs an example that must print what is missing.
async fn assert_usage_error(file: &str, arguments: &[&OsStr], settings: &[(String, String)], missing: &str) {
    let ran = CommandOutput::example(file, arguments, settings, b"{}").await;
    assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{file} without {missing}: {ran:?}");
    let line = ran.errors.strip_suffix('\n').expect("a line");
    assert!(line.starts_with("usage: ") && !line.contains('\n'), "{file}: {ran:?}");
    assert!(line.ends_with(&format!(" missing or wrong: {missing}")), "{file} without {missing}: {ran:?}");
}

/// These variables, with values.
fn settings(names: &[&str]) -> Vec<(String, String)> {
    // No server listens there.
    let value = |name: &str| if name == "CONNECT_TENANT" { "acme" } else { "http://127.0.0.1:1" };
    names.iter().map(|name| ((*name).to_owned(), value(name).to_owned())).collect()
}

#[tokio::test]
async fn a_call_with_a_missing_argument_or_setting_names_it_and_sends_nothing() {
    for (name, argument) in [("send-batch", "ENQUIRY"), ("create-lead", "ORDER")] {
        join_all(LANGUAGES.map(async |language| {
            let file = format!("{name}.{language}");
            let (set, empty) = (settings(&CALLS), CALLS.map(|name| (name.to_owned(), String::new())));
            for bad in ["", "web \"1", "a\nb", "é"].map(OsStr::new) {
                assert_usage_error(&file, &[bad], &set, argument).await;
            }
            assert_usage_error(&file, &[OsStr::new("web-1")], &empty, &CALLS.join(" ")).await;
            assert_usage_error(&file, &[], &set[..3], &format!("{argument} CONNECT_SECRET")).await;
        }))
        .await;
    }
    let mut quoted = settings(&CALLS);
    quoted[1].1 = "a\"b".to_owned();
    assert_usage_error("send-batch.sh", &[OsStr::new("web-1")], &quoted, "CONNECT_TENANT").await;
}

#[tokio::test]
async fn a_verification_with_a_missing_argument_or_setting_names_it() {
    let secret = settings(&["CONNECT_WEBHOOK_SECRET"]);
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        assert_usage_error(&file, &[], &[], "SIGNATURE CONNECT_WEBHOOK_SECRET").await;
        let wrong = ["t=1,v1=00", "now"].map(OsStr::new);
        assert_usage_error(&file, &wrong, &secret, "NOW").await;
    }
}

#[tokio::test]
async fn rejects_a_signature_that_is_not_utf_8() {
    let signature = OsStr::from_bytes(b"t=1767225600,v1=\xff\xfe");
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        let settings = settings(&["CONNECT_WEBHOOK_SECRET"]);
        let ran =
            CommandOutput::example(&file, &[signature, OsStr::new("1767225600")], &settings, b"{}").await;
        let refused = "refused: signed with another secret, or changed on its way\n";
        assert_eq!((ran.code, ran.output.as_str(), ran.errors.as_str()), (Some(1), "", refused), "{file}");
    }
}
