//! A program refuses a schema that is too old or too new for it, with one line.

use super::SERVICES;
use tests::roles::as_program;
use tests::{CommandOutput, MAX_WAIT, Program, TestDatabase, World};

/// Starts each program, which must end at once with one line that contains `part`.
async fn assert_refused(world: &World, part: &str) {
    for name in SERVICES {
        let settings = world.settings().iter().map(|(setting, value)| {
            let value = if setting == "DATABASE_URL" { as_program(name, value) } else { value.clone() };
            (setting.clone(), value)
        });
        let ran = CommandOutput::of(name, &[], &settings.collect::<Vec<_>>()).await;
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
        assert!(ran.errors.lines().count() == 1 && ran.errors.contains(part), "{name}: {ran:?}");
    }
}

#[tokio::test]
async fn a_program_refuses_a_schema_that_lacks_its_migrations_or_needs_later_programs() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let last = "schema_history WHERE version = (SELECT max(version) FROM schema_history)";
    let row = world.database.rows(&format!("SELECT version, name, checksum FROM {last}"), &[]).await.remove(0);
    world.database.execute(&format!("DELETE FROM {last}")).await;
    let first = format!("V{}__{}", row["version"], row["name"].as_str().expect("a name"));
    let line = format!(
        "the schema is too old for this program: it lacks 1 migrations, the first one is {first}; run connectctl migrate"
    );
    assert_refused(&world, &line).await;
    // Once it is migrated, programs start.
    let restore = format!(
        "INSERT INTO schema_history VALUES ({}, '{}', '{}')",
        row["version"],
        row["name"].as_str().expect("a name"),
        row["checksum"].as_str().expect("a checksum")
    );
    world.database.execute(&restore).await;
    // Later migrations do no harm, unless they need later programs.
    world.database.execute("INSERT INTO schema_history VALUES (9999, 'later', '1')").await;
    world.add_ingest().await;
    world.database.execute("UPDATE schema_compatibility SET oldest_program = 9999").await;
    let line = "the schema is too new for this program: it needs programs that know migration V9999";
    assert_refused(&world, line).await;
}

#[tokio::test]
async fn a_program_that_started_during_an_outage_refuses_the_schema_afterwards() {
    let world = World::with().ingests(0).workers(0).through_proxies().start().await;
    world.database.execute("UPDATE schema_compatibility SET oldest_program = 9999").await;
    world.proxies().postgres.reset_connections();
    let mut programs: Vec<Program> = SERVICES.into_iter().map(|name| Program::spawn(name, world.settings())).collect();
    for program in &mut programs {
        program.until_listening().await;
    }
    world.proxies().postgres.restore();
    for program in &mut programs {
        assert_eq!(program.until_ended(MAX_WAIT).await.code(), Some(1), "{}", program.name());
        program.until_logged("the schema is too new for this program").await;
    }
}

#[tokio::test]
async fn programs_and_migrate_refuse_a_database_of_others() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let refusal = "the database was set up with other migrations than those of this program";
    for change in [
        // Another file of the same version.
        "UPDATE schema_history SET name = 'initial_schema' WHERE version = 1",
        "UPDATE schema_history SET name = 'tenants_keys_and_audit', checksum = '1' WHERE version = 1",
        // A history under another name.
        "ALTER TABLE schema_history RENAME TO other_history",
    ] {
        world.database.execute(change).await;
        assert_refused(&world, refusal).await;
        let line = world.connectctl.refusal(&["migrate"]).await;
        assert!(line.contains(refusal) && line.contains("`make clean`"), "{line}");
    }

    // One that cannot hold every text, and one of a server without ICU.
    for (options, change, line) in [
        ("ENCODING 'LATIN1' LOCALE 'C'", "", "the database's encoding is LATIN1; create it with ENCODING 'UTF8'"),
        (
            "",
            "DELETE FROM pg_collation WHERE collname = 'und-x-icu'",
            "the server was built without ICU, by whose rules names are searched",
        ),
    ] {
        world.use_database(TestDatabase::empty_with(&format!("{options} TEMPLATE template0")).await);
        world.database.execute(change).await;
        assert_refused(&world, line).await;
        world.connectctl.assert_refusal(&["migrate"], line).await;
        let doctor = world.connectctl.run(&["doctor", "--json"]).await;
        assert!(doctor.code == Some(1) && doctor.output.contains(line), "{doctor:?}");
    }
}
