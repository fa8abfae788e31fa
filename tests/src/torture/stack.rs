//! The servers and programs of a run, with a proxy between each program and each server.

use super::plan::{PROGRAMS, ServerKind};
use crate::connectctl::Connectctl;
use crate::database::{TestDatabase, new_name};
use crate::dedicated_servers::{Broker, Postgres, Server};
use crate::key::ApiKey;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::queues::Queues;
use crate::url::{address, with_address};
use crate::world::{ALL_SCOPES, common_settings, create_key};
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex as AsyncMutex, RwLock};
use tokio_postgres::Client;

/// Size of the file systems of the database and of the broker, if this process may mount them.
const DISKS_MIB: (u32, u32) = (4096, 1024);

/// Settings of the programs: short timeouts, so that many faults exceed them, and short waits between webhook attempts.
const SETTINGS: [(&str, &str); 8] = [
    ("CONNECT_STORE_TIMEOUT", "1s"),
    ("CONNECT_PUBLISH_TIMEOUT", "1s"),
    ("CONNECT_REPLY_TIMEOUT", "4s"),
    ("CONNECT_SHUTDOWN_TIMEOUT", "6s"),
    ("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true"),
    ("CONNECT_WEBHOOK_BACKOFF_BASE", "250ms"),
    ("CONNECT_WEBHOOK_BACKOFF_CAP", "2s"),
    ("CONNECT_WEBHOOK_TIMEOUT", "1s"),
];

/// One copy of a program. Its parts are dropped in the order of the fields.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) program: AsyncMutex<Option<Program>>,
    /// To the primary and to its standby.
    pub(super) postgres: [Proxy; 2],
    pub(super) broker: [Proxy; 1],
    name: &'static str,
    settings: Vec<(String, String)>,
    log: PathBuf,
}

/// Everything that runs. Its parts are dropped in the order of the fields.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) slots: Vec<Slot>,
    pub(super) queues: Queues,
    database: RwLock<TestDatabase>,
    pub(super) connectctl: Connectctl,
    pub(super) keys: Vec<ApiKey>,
    /// A primary and its synchronous standby.
    postgres: [Postgres; 2],
    is_promoted: AtomicBool,
    pub(super) broker: Broker,
    ingests: Mutex<[Option<SocketAddr>; 2]>,
    /// Programs that ended by themselves.
    pub(super) ended: Mutex<Vec<String>>,
}

impl Slot {
    /// What is between the program and the servers of that kind.
    pub(super) fn proxies(&self, kind: ServerKind) -> &[Proxy] {
        match kind {
            ServerKind::Postgres => &self.postgres,
            ServerKind::Broker => &self.broker,
        }
    }
}

impl Stack {
    /// Starts everything. Logs of the programs are appended to files in `logs`.
    pub(super) async fn start(logs: &Path) -> Self {
        std::fs::create_dir_all(logs).expect("a directory for logs");
        let (postgres, broker) =
            tokio::join!(Postgres::start_on_small_disk(DISKS_MIB.0), Broker::start_on_small_disk(DISKS_MIB.1));
        // The log of Postgres must fit its file system.
        postgres.configure("SET max_wal_size = '400MB'").await;
        let database = TestDatabase::on(postgres.url()).await;
        let standby = start_synchronous_standby(&postgres).await;
        let amqp_url = format!("{}?heartbeat=4", broker.url());
        let queues = Queues::new(broker.url(), new_name());
        let settings = |database_url: &str, amqp_url: &str| {
            let mut all = common_settings(database_url, amqp_url, queues.prefix());
            all.retain(|(name, _)| !SETTINGS.iter().any(|(set, _)| set == name));
            all.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
            all
        };
        let slots = PROGRAMS.iter().enumerate().map(|(number, name)| {
            let proxies = [&postgres, &standby].map(|server| Proxy::to(&address(server.url(), 5432)));
            let broker_proxy = Proxy::to(&address(broker.url(), 5672));
            let database_url = on_both(database.url(), &proxies.each_ref().map(|proxy| proxy.address().to_string()));
            Slot {
                program: AsyncMutex::default(),
                settings: settings(&database_url, &with_address(&amqp_url, broker_proxy.address())),
                postgres: proxies,
                broker: [broker_proxy],
                name,
                log: logs.join(format!("{name}-{}.log", number % 2)),
            }
        });
        let slots = slots.collect();
        let both = on_both(database.url(), &[&postgres, &standby].map(|server| address(server.url(), 5432)));
        let connectctl = Connectctl::with(settings(&both, broker.url()));
        let mut keys = vec![database.key().clone()];
        connectctl.json(&["tenant", "create", "--slug", "zeta", "--name", "Zeta"]).await;
        let add = ["member", "add", "--tenant", "zeta", "--email", "zoe@zeta.test", "--name", "Zoe"];
        connectctl.json(&add).await;
        keys.push(create_key(&connectctl, "zeta", ALL_SCOPES).await);
        let (ingests, ended, is_promoted, postgres, database) =
            (Mutex::default(), Mutex::default(), AtomicBool::default(), [postgres, standby], RwLock::new(database));
        let stack = Self { slots, queues, database, connectctl, keys, postgres, is_promoted, broker, ingests, ended };
        join_all((0..PROGRAMS.len()).map(|slot| stack.start_program(slot))).await;
        stack.until_ready().await;
        stack
    }

    /// The server of that kind; of Postgres the primary.
    pub(super) fn server(&self, kind: ServerKind) -> &Server {
        match kind {
            ServerKind::Postgres => &self.postgres[usize::from(self.is_promoted.load(Ordering::SeqCst))],
            ServerKind::Broker => &self.broker,
        }
    }

    /// A connection to the database of the primary.
    pub(super) async fn connect(&self) -> Client {
        self.database.read().await.connect().await
    }

    /// Stops the primary where it is, and promotes its standby. Returns the old primary; `None` if there is no standby any more.
    pub(super) async fn promote(&self) -> Option<&Server> {
        if self.is_promoted.load(Ordering::SeqCst) {
            return None;
        }
        let [primary, standby] = &self.postgres;
        primary.pause();
        standby.execute("SELECT pg_promote()").await;
        self.is_promoted.store(true, Ordering::SeqCst);
        self.database.write().await.move_to(standby);
        Some(primary)
    }

    /// Addresses of the ingests that run.
    pub(super) fn ingests(&self) -> Vec<SocketAddr> {
        let ingests = self.ingests.lock();
        ingests.iter().flatten().copied().collect()
    }

    /// Starts a program and waits until it listens.
    pub(super) async fn start_program(&self, slot: usize) {
        let Slot { program, name, settings, .. } = &self.slots[slot];
        let mut started = Program::spawn(name, settings);
        started.until_listening().await;
        if *name == "connect-ingest" {
            self.ingests.lock()[slot % 2] = Some(started.http().address());
        }
        *program.lock().await = Some(started);
    }

    /// Ends a program with SIGKILL, or with SIGTERM.
    pub(super) async fn end_program(&self, slot: usize, kill: bool) {
        let Slot { program, name, log, .. } = &self.slots[slot];
        let Some(mut program) = program.lock().await.take() else { return };
        if *name == "connect-ingest" {
            self.ingests.lock()[slot % 2] = None;
        }
        self.note_end(&mut program);
        if kill {
            program.kill();
        } else if program.ended().is_none() {
            program.terminate().await;
        }
        append(log, &program);
    }

    /// Signals a program, if it runs.
    pub(super) async fn signal_program(&self, slot: usize, signal: &str) {
        if let Some(program) = self.slots[slot].program.lock().await.as_mut()
            && program.ended().is_none()
        {
            program.signal(signal);
        }
    }

    /// Waits until all programs are ready, or have ended.
    pub(super) async fn until_ready(&self) {
        for slot in &self.slots {
            if let Some(program) = slot.program.lock().await.as_mut()
                && program.ended().is_none()
            {
                program.until_ready().await;
            }
        }
    }

    /// Appends the logs of the running programs to their files, and notes those that ended by themselves.
    pub(super) async fn save_logs(&self) {
        for slot in &self.slots {
            if let Some(program) = slot.program.lock().await.as_mut() {
                self.note_end(program);
                append(&slot.log, program);
            }
        }
    }

    fn note_end(&self, program: &mut Program) {
        if let Some(status) = program.ended() {
            let what = format!("{} ended by itself: {status}", program.name());
            self.ended.lock().push(what);
        }
    }
}

/// A standby without which nothing is confirmed, so that a promotion loses nothing of that.
async fn start_synchronous_standby(primary: &Postgres) -> Postgres {
    let standby = primary.start_standby().await;
    // It waits that long after each end of the primary, and all confirmations with it.
    standby.configure("SET wal_retrieve_retry_interval = '100ms'").await;
    primary.configure("SET synchronous_standby_names = '*'").await;
    standby
}

/// The same database with the addresses of both servers.
fn on_both(url: &str, addresses: &[String; 2]) -> String {
    url.replacen(&address(url, 5432), &addresses.join(","), 1)
}

fn append(log: &Path, program: &Program) {
    use std::io::Write as _;
    let file = std::fs::File::options().create(true).append(true).open(log);
    let written = file.and_then(|mut file| writeln!(file, "{}", program.logs()));
    written.unwrap_or_else(|error| panic!("{}: {error}", log.display()));
}
