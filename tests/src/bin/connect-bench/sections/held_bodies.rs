//! Callers that send all but the last byte of a request as large as it may be, and hold it.

use crate::background_load::{BackgroundLoad, StopSignal};
use crate::caller::find_end_of_head;
use crate::prepare::api_address;
use crate::request;
use crate::time_limit::with_timeout;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tests::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Callers, and the largest body that ingest takes by default.
pub(super) const CALLERS: usize = 90;
pub(super) const BODY: usize = 4 << 20;
/// Networks that the callers use in turn: an address and a network may hold only a share of the budget.
const NETWORKS: usize = 30;
/// Bytes that all bodies may have by default, and the part of them that the callers must hold.
const BUDGET: usize = 256 << 20;
const HELD_MIN: f64 = 0.8;
/// How long a caller waits for a refusal before it counts as holding its body.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// Tries of a caller that is refused, and the wait between them.
const TRIES: usize = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// Maximum time that all may take to hold or be refused.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Requests that are held unfinished.
pub(super) struct HeldBodies {
    held: usize,
    background: BackgroundLoad<()>,
}

impl HeldBodies {
    /// Starts the callers and waits until each holds its body or has used up its tries.
    pub(super) async fn begin(world: &World) -> Self {
        let request = Arc::new(request::events(&world.key, &" ".repeat(BODY)));
        assert!(
            find_end_of_head(&request).is_some_and(|head| request.len() - head == BODY),
            "a whole request"
        );
        let (address, (ready, counted)) = (api_address(world), oneshot::channel());
        let background = BackgroundLoad::start(move |stop| hold(address, request, ready, stop));
        let held =
            with_timeout(MAX_WAIT, "the bodies are sent", counted).await.expect("the bodies can be sent");
        assert!(
            (held * BODY) as f64 >= HELD_MIN * BUDGET as f64,
            "the callers hold only {held} bodies: the figures are not those of a full budget"
        );
        Self { held, background }
    }

    /// Number of callers that hold their body.
    pub(super) const fn count(&self) -> usize {
        self.held
    }

    pub(super) async fn hang_up(self) {
        self.background.stop().await;
    }
}

async fn hold(
    address: SocketAddr,
    request: Arc<Vec<u8>>,
    ready: oneshot::Sender<usize>,
    mut stop: StopSignal,
) {
    let all = join_all((0..CALLERS).map(|number| try_to_hold(number % NETWORKS, address, &request))).await;
    let held: Vec<TcpStream> = all.into_iter().flatten().collect();
    // The receiver is dropped when the benchmark has failed.
    ready.send(held.len()).ok();
    stop.stopped().await;
}

async fn try_to_hold(network: usize, address: SocketAddr, request: &[u8]) -> Option<TcpStream> {
    let source = [127, 0, 1 + u8::try_from(network).expect("few networks"), 1];
    for _ in 0..TRIES {
        let sent = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((source, 0).into())?;
            let mut stream = socket.connect(address).await?;
            stream.write_all(&request[..request.len() - 1]).await?;
            Ok::<_, std::io::Error>(stream)
        };
        // A caller that is refused may find its connection closed while it sends.
        if let Ok(mut stream) = sent.await
            && timeout(REFUSED_WITHIN, stream.read_u8()).await.is_err()
        {
            return Some(stream);
        }
        sleep(BETWEEN_TRIES).await;
    }
    None
}
