//! Connection strings: several servers, some of which do not respond; unsupported options; no password in any log.

use super::SERVICES;
use std::time::{Duration, Instant};
use tests::{CommandOutput, Program, World, event};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A server that never responds.
struct UnresponsiveServer {
    port: u16,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl UnresponsiveServer {
    /// Its system accepts connections, and it sends nothing.
    async fn accepting() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Self { port, _listener: listener, _waiting: Vec::new() }
    }

    /// It accepts no connection: its listen backlog is full.
    async fn full() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            waiting.push(stream.expect("the backlog takes it"));
        }
        Self { port: address.port(), _listener: listener, _waiting: waiting }
    }
}

/// `url` with another server listed before its own.
fn behind(silent: &UnresponsiveServer, url: &str) -> String {
    let (before, rest) = url.split_once('@').expect("a URL with a user");
    format!("{before}@127.0.0.1:{},{rest}", silent.port)
}

#[tokio::test]
async fn programs_become_ready_when_the_first_servers_never_respond_or_accept_no_connection() {
    let (accepting, full) = (UnresponsiveServer::accepting().await, UnresponsiveServer::full().await);
    let mut world = World::with().ingests(0).workers(0).start().await;
    let url = behind(&accepting, &behind(&full, world.database.url()));
    world.set("DATABASE_URL", &url);
    world.set("CONNECT_STORE_TIMEOUT", "750ms");
    let urls = format!("amqp://127.0.0.1:{}/%2f?connection_timeout=500,{}", accepting.port, world.queues.url());
    world.set("AMQP_URL", &urls);
    let mut programs = SERVICES.map(|name| Program::spawn(name, world.settings()));
    for program in &mut programs {
        program.until_listening().await;
        program.until_ready().await;
    }
    let [ingest, worker, dispatcher, console] = programs;
    world.ingests.push(ingest);
    world.workers.push(worker);
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    drop((dispatcher, console));
}

#[tokio::test]
async fn the_connect_timeout_of_the_url_includes_the_handshake() {
    let silent = UnresponsiveServer::accepting().await;
    let url = format!("postgres://connect@127.0.0.1:{}/connect?connect_timeout=1", silent.port);
    let begun = Instant::now();
    let settings = [("DATABASE_URL".to_owned(), url)];
    let ran = CommandOutput::of("connectctl", &["tenant", "list"], &settings).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.errors.contains("cannot reach the database"), "{ran:?}");
    let took = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(30)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn no_password_is_logged_at_level_trace() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let (_, place) = world.database.url().split_once('@').expect("a URL with a user");
    let database_url = format!("postgres://connect:hunter2@{place}");
    let (_, amqp_url) = world.settings().iter().find(|(name, _)| name == "AMQP_URL").expect("a broker").clone();
    let place = amqp_url.rsplit_once('@').map_or_else(|| amqp_url.trim_start_matches("amqp://"), |(_, place)| place);
    let refused = format!("amqp://guest:hunter2@{place}");
    world.set("DATABASE_URL", &database_url);
    world.set("RUST_LOG", "trace,lapin=trace");
    // The first broker refuses the password, the second has none to hide.
    world.set("AMQP_URL", &format!("{refused},{amqp_url}"));
    // As it stands in the URL, and as a list of bytes, which is how frames are shown.
    let bytes = format!("{:?}", b"hunter2");
    for name in SERVICES {
        let mut program = Program::listening(name, world.settings()).await;
        program.until_ready().await;
        assert!(program.terminate().await.success(), "{name}");
        let logs = program.logs();
        assert!(!logs.contains("hunter2") && !logs.contains(bytes.trim_matches(['[', ']'])), "{name}:\n{logs}");
    }
}
