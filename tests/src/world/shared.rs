//! The one running world of all tests that need no world of their own.

use super::{World, tenants};
use crate::duration;
use crate::http::HttpClient;
use crate::program::Program;
use crate::receiver::Authority;
use crate::threads::when_this_process_ends;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A view of each table of a tenant, with the rows of the tenants that the session names.
const VIEWS: &str = "CREATE SCHEMA of_test;
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant_id'
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        LOOP EXECUTE format('CREATE VIEW of_test.%I AS SELECT * FROM public.%I
            WHERE tenant_id = ANY (current_setting(''test.tenants'')::uuid[])', name, name); END LOOP;
    END $$";

/// Makes the database reject the last row of each event with `unlucky` in its id, so that the event fails with an internal error. The
/// shared world has this.
pub const BREAK_UNLUCKY_EVENTS: &str = "CREATE FUNCTION refuse_unlucky() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.event_id LIKE '%unlucky%' THEN RAISE EXCEPTION 'secret detail of the inside'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER unlucky BEFORE INSERT ON event_ledger FOR EACH ROW EXECUTE FUNCTION refuse_unlucky();";

#[derive(Debug)]
struct Shared {
    world: World,
    console: Program,
}

#[derive(Debug)]
pub(super) struct SharedUse {
    pub(super) ingests: Vec<HttpClient>,
    pub(super) console: HttpClient,
}

impl Drop for SharedUse {
    fn drop(&mut self) {
        tenants::forget();
        if std::thread::panicking() {
            let World { ingests, workers, dispatchers, .. } = &running().world;
            ingests.iter().chain(workers).chain(dispatchers).for_each(Program::print_logs);
        }
    }
}

/// Starts it at the first call.
fn running() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    // On a thread of its own, because the runtime of the test must not be used by others.
    let start = || tokio::runtime::Runtime::new().expect("a runtime").block_on(start());
    SHARED.get_or_init(|| std::thread::spawn(start).join().expect("the shared world starts"))
}

async fn start() -> Shared {
    let authority = Authority::shared();
    let file = authority.file().to_str().expect("a path in Unicode").to_owned();
    let builder = World::with()
        .ingests(2)
        .workers(2)
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_CA_FILE", &file)
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms")
        .set("CONNECT_WEBHOOK_BACKOFF_CAP", "10s");
    let world = builder.start().await;
    let console = Program::console(world.settings()).await;
    world.database.execute(BREAK_UNLUCKY_EVENTS).await;
    world.database.execute(VIEWS).await;
    let programs = world.ingests.iter().chain(&world.workers).chain(&world.dispatchers).chain([&console]);
    kill_with_this_process(programs, &file);
    Shared { world, console }
}

/// Ends the programs and removes the file when this process ends. Database and queues are left to the next process, which deletes what an earlier one has left.
fn kill_with_this_process<'p>(programs: impl Iterator<Item = &'p Program>, file: &str) {
    let ids = programs.map(|program| program.id().to_string().into());
    when_this_process_ends(r#"kill -KILL "$@"; rm -f "$0""#, [file.into()].into_iter().chain(ids).collect());
}

/// A value like the shared world, without its programs, for a test with a new tenant `acme`.
pub(super) async fn join() -> World {
    duration::measure();
    let Shared { world, console } = running();
    tenants::forget();
    let database = world.database.shared();
    let key = tenants::create(&database.connect().await, "acme").await;
    // Limits of what one address may do must not add up over tests.
    static PEERS: AtomicU32 = AtomicU32::new(0);
    let peer = PEERS.fetch_add(1, Ordering::Relaxed);
    let peer = IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + peer));
    let shared = SharedUse {
        ingests: world.ingests.iter().map(|ingest| HttpClient::new(ingest.http().address()).with_peer(peer)).collect(),
        console: HttpClient::for_other_server(console.http().address()).with_peer(peer),
    };
    World {
        ingests: Vec::new(),
        workers: Vec::new(),
        dispatchers: Vec::new(),
        queues: world.queues.shared(),
        database,
        connectctl: world.connectctl.clone(),
        key,
        settings: world.settings.clone(),
        proxies: None,
        shared: Some(shared),
    }
}
