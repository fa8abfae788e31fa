//! A database for each test: a clone of one that was migrated and seeded once.

use crate::connectctl::{CommandOutput, Connectctl};
use crate::dedicated_servers::Postgres;
use crate::eventually::{until, until_equal};
use crate::key::ApiKey;
use crate::queues::Queues;
use crate::roles::{ROLE_PREFIX, create_logins};
use crate::threads::runtime;
use crate::url::with_database;
use crate::world::{self, seed};
use crate::{duration, services};
use parking_lot::Mutex;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// What every database name of the tests begins with.
const NAME_PREFIX: &str = "connect_test_";

/// Maximum time that a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum time that making or dropping a database may take.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time that the clean-up after a test may take.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// A database of a single test; dropped with its value.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    url: String,
    name: String,
    key: Option<ApiKey>,
    /// Whether it belongs to the shared world: queries see the rows of the test's tenants.
    is_shared: bool,
    /// The connection of the last query, for the next one: a new one costs Postgres 9 ms, and tests poll.
    idle: Mutex<Option<Client>>,
}

struct Template {
    name: String,
    key: ApiKey,
}

impl TestDatabase {
    /// A database on the shared server, migrated and seeded.
    pub async fn new() -> Self {
        duration::measure();
        let name = tokio::task::spawn_blocking(next_clone).await.expect("a clone of the template");
        let server = services::shared_servers().database_url.clone();
        Self::at(&server, name, Some(template().key.clone()))
    }

    /// An empty database on the shared server, without a schema.
    pub async fn empty() -> Self {
        Self::empty_with("").await
    }

    /// An empty database that is created with these options.
    pub async fn empty_with(options: &str) -> Self {
        duration::measure();
        let (server, name) = (services::shared_servers().database_url.clone(), new_name());
        execute_admin(&server, &format!("CREATE DATABASE {name} {options}")).await;
        create_logins(&server).await;
        Self::at(&server, name, None)
    }

    /// A migrated and seeded database on a server that only this test uses.
    pub async fn on(server: &str) -> Self {
        duration::measure();
        let (name, key) = create_migrated(server, new_name()).await;
        Self::at(server, name, Some(key))
    }

    fn at(server: &str, name: String, key: Option<ApiKey>) -> Self {
        let (server, url) = (server.to_owned(), with_database(server, &name));
        Self { server, url, name, key, is_shared: false, idle: Mutex::default() }
    }

    /// The same database for a test that joins the shared world.
    pub(crate) fn shared(&self) -> Self {
        let mut shared = Self::at(&self.server, self.name.clone(), self.key.clone());
        shared.is_shared = true;
        shared
    }

    /// Has the next query use a new connection, because the test has another tenant.
    pub(crate) fn forget_idle(&self) {
        self.idle.lock().take();
    }

    /// The key of a seeded database: of the tenant `acme`, with every scope.
    pub fn key(&self) -> &ApiKey {
        self.key.as_ref().expect("a seeded database")
    }

    /// Its name, which is unique.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The value for `DATABASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Uses the copy of the database on another server from now on, which was its server's standby.
    pub fn move_to(&mut self, server: &Postgres) {
        self.url = with_database(server.url(), &self.name);
        server.url().clone_into(&mut self.server);
        self.idle = Mutex::default();
    }

    /// Writes a dump to `file`, as `docs/restore.md` says.
    pub async fn dump(&self, file: &Path) {
        self.run_tool("pg_dump --format=custom --file \"$DUMP\" \"$DATABASE_URL\"", file).await;
    }

    /// A new database with the data of a dump of this one, as `docs/restore.md` says, on a server that has neither its roles
    /// nor its owner.
    pub async fn restored(&self, file: &Path, server: &Postgres) -> Self {
        let name = new_name();
        execute_admin(server.url(), &format!("CREATE DATABASE {name}")).await;
        let restored = Self::at(server.url(), name, self.key.clone());
        let restore = "pg_restore --exit-on-error --no-owner --no-privileges --dbname \"$DATABASE_URL\" \"$DUMP\"";
        restored.run_tool(restore, file).await;
        let connectctl = Connectctl::for_database(&restored.url);
        connectctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
        create_logins(server.url()).await;
        restored
    }

    async fn run_tool(&self, script: &str, file: &Path) {
        let file = file.to_string_lossy().into_owned();
        let settings = [("DATABASE_URL".to_owned(), self.url.clone()), ("DUMP".to_owned(), file)];
        let ran = CommandOutput::bash(script, &settings).await;
        assert_eq!(ran.code, Some(0), "{script}: {}", ran.errors);
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Client {
        let client = connect(&self.url).await;
        if self.is_shared {
            let scope = format!("SET search_path TO of_test, public; SET test.tenants TO '{}'", world::ids());
            client.batch_execute(&scope).await.expect("the tenants of this test");
        }
        client
    }

    /// A session with a transaction that has executed `statements`, whose locks it holds until that ends.
    pub async fn begin(&self, statements: &str) -> Client {
        let session = self.connect().await;
        let done = session.batch_execute(&format!("BEGIN; {statements}")).await;
        done.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
        session
    }

    /// Executes SQL statements separated by semicolons.
    pub async fn execute(&self, statements: &str) {
        let done = self.connect().await.batch_execute(&world::with_slugs(statements)).await;
        done.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// The rows of a query, each as a JSON object.
    pub async fn rows(&self, query: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<serde_json::Value> {
        let json = format!("SELECT row_to_json(query) FROM ({query}) query");
        self.query(&json, parameters).await.iter().map(|row| row.get(0)).collect()
    }

    /// Waits until at least `count` sessions of this database are as `condition` on `pg_stat_activity` says.
    pub async fn until_sessions(&self, condition: &str, count: i64) {
        let query = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {condition}");
        let found = async || self.count(&query).await;
        until(&format!("sessions: {condition}"), found, |&found| found >= count).await;
    }

    /// Keeps whoever inserts into `table` waiting, as a slow statement does, until the returned session ends.
    pub async fn hold_inserts(&self, table: &str) -> Client {
        let gate = self.connect().await;
        let hold = format!(
            "SELECT pg_advisory_lock(42);
             CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 WHILE NOT pg_try_advisory_xact_lock_shared(42) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NEW;
             END $$;
             CREATE TRIGGER gate BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION wait_at_gate()"
        );
        gate.batch_execute(&hold).await.expect("nobody has the lock");
        gate
    }

    /// Waits until a worker waits where [`Self::hold_inserts`] keeps it.
    pub async fn until_worker_is_held(&self) {
        self.until_session_of("worker", "wait_event = 'PgSleep'").await;
    }

    /// Waits until a session waits for a lock.
    pub async fn until_lock_wait(&self) {
        self.until_sessions("wait_event_type = 'Lock'", 1).await;
    }

    /// Waits until a session of the pool `name` waits for a lock.
    pub async fn until_lock_wait_of(&self, name: &str) {
        self.until_session_of(name, "wait_event_type = 'Lock'").await;
    }

    /// Waits until a session of the pool `name` is as `condition` says.
    pub async fn until_session_of(&self, name: &str, condition: &str) {
        self.until_sessions(&format!("application_name = '{name}' AND {condition}"), 1).await;
    }

    /// The number that a query returns.
    pub async fn count(&self, query: &str) -> i64 {
        let rows = self.query(query, &[]).await;
        assert_eq!(rows.len(), 1, "{query}");
        rows[0].get(0)
    }

    /// Waits until a query returns this number.
    pub async fn until_count(&self, query: &str, expected: i64) {
        until_equal(query, expected, async || self.count(query).await).await;
    }

    /// Runs a query on the idle connection, or on a new one while another query uses it, or after it was lost.
    async fn query(&self, query: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let query = &world::with_slugs(query);
        let idle = || self.idle.lock();
        let kept = idle().take();
        if let Some(client) = kept
            && let Ok(rows) = client.query(query, parameters).await
        {
            *idle() = Some(client);
            return rows;
        }
        let client = self.connect().await;
        let rows = client.query(query, parameters).await;
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        *idle() = Some(client);
        rows
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.is_shared {
            return;
        }
        let (server, name) = (self.server.clone(), self.name.clone());
        // A server that the test has stopped is deleted with its databases.
        clean_up(async move {
            if let Ok(client) = try_connect(&server).await {
                drop(client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await);
            }
        });
    }
}

/// The database that the others are cloned from; made by the first test of the process.
fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        blocking(async {
            let server = &services::shared_servers().database_url;
            drop_orphans(server).await;
            let (name, key) = create_migrated(server, new_name()).await;
            Template { name, key }
        })
    })
}

/// A new clone of the template. Cloning mostly waits for the disk, so the next clones are created while tests run. The
/// last ones stay until the next test process on this machine drops them.
fn next_clone() -> String {
    static CLONES: OnceLock<Mutex<Receiver<String>>> = OnceLock::new();
    let clones = CLONES.get_or_init(|| {
        let template = &template().name;
        let (ready, clones) = sync_channel(1);
        std::thread::spawn(move || {
            let clone = || {
                let name = new_name();
                let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
                blocking(execute_admin(&services::shared_servers().database_url, &statement));
                name
            };
            while ready.send(clone()).is_ok() {}
        });
        Mutex::new(clones)
    });
    clones.lock().recv().expect("the template can be cloned")
}

async fn create_migrated(server: &str, name: String) -> (String, ApiKey) {
    execute_admin(server, &format!("CREATE DATABASE {name}")).await;
    let connectctl = Connectctl::for_database(&with_database(server, &name));
    connectctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
    create_logins(server).await;
    let key = seed(&connectctl).await;
    (name, key)
}

/// Drops databases of processes of this machine that have ended.
async fn drop_orphans(server: &str) {
    let client = connect(server).await;
    let pattern = format!("{}%", this_machine());
    let found = client.query("SELECT datname FROM pg_database WHERE datname LIKE $1", &[&pattern]).await;
    for row in found.expect("the list of databases") {
        let name: String = row.get(0);
        let process = name.strip_prefix(&this_machine()).and_then(|rest| rest.split('_').next()).unwrap_or("");
        if !Path::new("/proc").join(process).exists() {
            // What the shared world of that process has left.
            drop(Queues::new(&services::shared_servers().amqp_url, name.clone()));
            // Another process may drop it at the same time.
            drop(client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await);
        }
    }
}

/// A name that is unique across tests, processes, and machines that share the servers.
pub(crate) fn new_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}{}_{}", this_machine(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The first part of names that are made on this machine.
fn this_machine() -> String {
    let mut hash = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default().hash(&mut hash);
    format!("{NAME_PREFIX}{:08x}_", hash.finish() >> 32)
}

pub(crate) async fn execute_admin(server: &str, statement: &str) {
    let client = connect(server).await;
    let done = tokio::time::timeout(ADMIN_TIMEOUT, client.batch_execute(statement)).await;
    let done = done.unwrap_or_else(|_| panic!("not within {ADMIN_TIMEOUT:?}: {statement}"));
    done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
}

async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap_or_else(|error| panic!("no Postgres at {url}: {error}"))
}

async fn try_connect(url: &str) -> Result<Client, String> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, tokio_postgres::connect(url, NoTls)).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?.map_err(|error| format!("{error:?}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs the clean-up after a test with a time limit: a hanging server must not delay other tests.
pub(crate) fn clean_up(work: impl Future<Output = ()> + Send) {
    blocking(async { drop(tokio::time::timeout(CLEAN_UP_TIMEOUT, work).await) });
}

/// Runs a future to its end where there is no runtime, or one that must not be blocked.
pub(crate) fn blocking<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(work)).join().expect("the work succeeds"))
}
