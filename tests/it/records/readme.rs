//! The examples of the records API in docs/integrators.md do what they say.

use crate::examples::readme::block;
use tests::{CommandOutput, World};

#[tokio::test]
async fn the_documented_examples_create_read_and_update() {
    let world = World::start().await;
    let demo = world.add_tenant("demo").await;
    let mut settings = world.settings().to_vec();
    let address = world.http().address().to_string();
    for (name, value) in [("CONNECT_INGEST_ADDR", &address), ("KEY", &demo.prefix), ("SECRET", &demo.secret)]
    {
        settings.retain(|(setting, _)| setting != name);
        settings.push((name.to_owned(), value.clone()));
    }
    let ran = CommandOutput::bash(&block("integrators.md", "Use the records API", "sh"), &settings).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    let statuses: Vec<_> = ran.output.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).collect();
    let [created, ok] = ["201 Created", "200 OK"];
    assert_eq!(statuses, [created, created, ok, ok, ok, ok], "{}", ran.output);
    for shown in
        [r#""destination":"Lisbon""#, r#""stage":"follow_up""#, r#""adults":2"#, "My sister comes along."]
    {
        assert!(ran.output.contains(shown), "{shown}: {}", ran.output);
    }
    let usage = world.connectctl.json(&["usage", "--tenant", "demo"]).await;
    assert_eq!(usage["writes"], 4);
}
