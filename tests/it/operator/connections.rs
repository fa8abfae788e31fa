//! Connection strings: several servers, of which some don't answer; what can't be honored; no password in any log.

use super::SERVICES;
use std::time::{Duration, Instant};
use tests::{Program, Ran, World, event};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A server that doesn't answer. Ends with its value.
struct Silent {
    port: u16,
    _held: Held,
}

enum Held {
    /// Takes every connection and says nothing.
    Accepting(tokio::task::JoinHandle<()>),
    /// Takes no connection: as many wait to be accepted as may.
    Full { _listener: TcpListener, _waiting: Vec<TcpStream> },
}

impl Drop for Silent {
    fn drop(&mut self) {
        if let Held::Accepting(task) = &self._held {
            task.abort();
        }
    }
}

impl Silent {
    async fn accepting() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let task = tokio::spawn(async move {
            let mut taken = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                taken.push(stream);
            }
        });
        Self { port, _held: Held::Accepting(task) }
    }

    async fn full() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            waiting.push(stream.expect("the backlog takes it"));
        }
        Self { port: address.port(), _held: Held::Full { _listener: listener, _waiting: waiting } }
    }
}

/// `url` with another server before its own.
fn after(silent: &Silent, url: &str) -> String {
    let (before, rest) = url.split_once('@').expect("a URL with a user");
    format!("{before}@127.0.0.1:{},{rest}", silent.port)
}

async fn work_beside(silent: Silent) {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let url = after(&silent, world.database.url());
    world.set("DATABASE_URL", &url);
    world.set("CONNECT_STORE_TIMEOUT", "750ms");
    let mut programs = SERVICES.map(|name| Program::spawn(name, world.settings()));
    for program in &mut programs {
        program.until_listening().await;
        program.until_ready().await;
    }
    let [ingest, worker, dispatcher] = programs;
    world.ingests.push(ingest);
    world.workers.push(worker);
    world.accept_in_time(event("contact.identified").email("ana@example.com")).await;
    drop(dispatcher);
}

#[tokio::test]
async fn programs_get_ready_when_the_first_database_server_accepts_and_never_answers() {
    work_beside(Silent::accepting().await).await;
}

#[tokio::test]
async fn programs_get_ready_when_the_first_database_server_takes_no_connection() {
    work_beside(Silent::full().await).await;
}

#[tokio::test]
async fn the_time_to_connect_is_what_the_url_says_and_includes_the_handshake() {
    let silent = Silent::accepting().await;
    let url = format!("postgres://connect@127.0.0.1:{}/connect?connect_timeout=1", silent.port);
    let begun = Instant::now();
    let settings = [("DATABASE_URL".to_owned(), url)];
    let ran = Ran::of("connectctl", &["tenant", "list"], &settings).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.errors.contains("can't reach the database"), "{ran:?}");
    let took = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(6)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn programs_get_ready_when_the_first_broker_never_answers() {
    let silent = Silent::accepting().await;
    let mut world = World::with().ingests(0).workers(0).start().await;
    let (_, amqp_url) = world.settings().iter().find(|(name, _)| name == "AMQP_URL").expect("a broker");
    let urls = format!("amqp://127.0.0.1:{}/%2f?connection_timeout=500,{amqp_url}", silent.port);
    world.set("AMQP_URL", &urls);
    for name in SERVICES {
        let mut program = Program::spawn(name, world.settings());
        program.until_listening().await;
        program.until_ready().await;
    }
}

/// What a program must not log: as it stands in the URL, and as a list of bytes, which is how frames are shown.
fn assert_discreet(program: &str, logs: &str, setting: &str) {
    let bytes = format!("{:?}", b"hunter2");
    let bytes = bytes.trim_matches(['[', ']']);
    assert!(!logs.contains("hunter2") && !logs.contains(bytes), "{program} with {setting}:\n{logs}");
}

#[tokio::test]
async fn no_password_is_logged_however_the_url_is_written() {
    let world = World::with().ingests(0).workers(0).start().await;
    let place = world.database.url().split_once('@').expect("a URL with a user").1.to_owned();
    let odd = [
        ("DATABASE_URL", "postgres://u:hunter2@[".to_owned()),
        ("DATABASE_URL", format!("postgres://u:x@hunter2@{place}")),
        ("DATABASE_URL", format!("postgres://u:hunter2@{place}?hunter2=1")),
        ("DATABASE_URL", format!("postgres://u:hunter2@{place}?sslmode=hunter2")),
        ("DATABASE_URL", "host=127.0.0.1 port=1 password=hunter2".to_owned()),
        ("DATABASE_READ_URL", format!("postgres://u:hunter2@{place}?sslmode=require")),
        ("AMQP_URL", "amqp://u:1/hunter2@127.0.0.1/%2f".to_owned()),
        ("AMQP_URL", "amqp://u:hunter2@127.0.0.1:1/%2f,amqp//u:hunter2@b".to_owned()),
        ("AMQP_URL", "amqp://u:hun%zzhunter2@127.0.0.1:port/%2f".to_owned()),
        ("AMQP_URL", "amqps://u:hunter2@127.0.0.1:1/%2f".to_owned()),
    ];
    for (name, value) in &odd {
        for program in SERVICES {
            let mut settings = world.settings().to_vec();
            settings.retain(|(set, _)| set != name);
            settings.push(((*name).to_owned(), value.clone()));
            let ran = Ran::of(program, &[], &settings).await;
            assert_eq!(ran.code, Some(1), "{program} with {value}: {ran:?}");
            assert!(ran.errors.starts_with(&format!("setting {name}: ")), "{program}: {ran:?}");
            assert_eq!(ran.errors.lines().count(), 1, "{program}: {ran:?}");
            assert_discreet(program, &ran.errors, value);
        }
    }
}

#[tokio::test]
async fn no_password_is_logged_by_a_program_that_runs_and_logs_all_it_can() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let (_, place) = world.database.url().split_once('@').expect("a URL with a user");
    let database_url = format!("postgres://connect:hunter2@{place}");
    let (_, amqp_url) =
        world.settings().iter().find(|(name, _)| name == "AMQP_URL").expect("a broker").clone();
    let place =
        amqp_url.rsplit_once('@').map_or_else(|| amqp_url.trim_start_matches("amqp://"), |(_, place)| place);
    let refused = format!("amqp://guest:hunter2@{place}");
    world.set("DATABASE_URL", &database_url);
    world.set("RUST_LOG", "trace,lapin=trace");
    // The first broker refuses the password, the second has none to hide.
    world.set("AMQP_URL", &format!("{refused},{amqp_url}"));
    for name in SERVICES {
        let mut program = Program::spawn(name, world.settings());
        program.until_listening().await;
        program.until_ready().await;
        assert!(program.terminate().await.success(), "{name}");
        assert_discreet(name, &program.logs(), "everything logged");
    }
}
