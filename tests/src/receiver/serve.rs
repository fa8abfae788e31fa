//! Accepting connections and serving their requests.

use super::received::{Behavior, ReceivedRequest};
use super::wire::{self, Socket};
use bytes::BytesMut;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// How a new connection is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum ConnectionMode {
    #[default]
    Open,
    Reset,
    Silent,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) received: Vec<ReceivedRequest>,
    pub(super) next: HashMap<String, VecDeque<Behavior>>,
    pub(super) standing: HashMap<String, Behavior>,
    pub(super) others: Behavior,
    pub(super) connection_mode: ConnectionMode,
    pub(super) accepted: usize,
    pub(super) open: usize,
    /// Of the open ones, those that wait for a request.
    pub(super) idle: usize,
}

#[derive(Debug)]
pub(super) struct SharedState {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Tells idle connections to close.
    closing: watch::Sender<()>,
    /// Whether requests that can be held are.
    holding: watch::Sender<bool>,
}

impl Default for SharedState {
    fn default() -> Self {
        Self {
            state: Mutex::new(State::default()),
            changed: watch::Sender::new(()),
            closing: watch::Sender::new(()),
            holding: watch::Sender::new(false),
        }
    }
}

impl SharedState {
    pub(super) fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.changed.send_replace(());
        changed
    }

    pub(super) fn close_idle(&self) {
        self.closing.send_replace(());
    }

    pub(super) fn hold(&self, hold: bool) {
        self.holding.send_replace(hold);
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl State {
    /// Records a request and returns how to handle it.
    fn take(&mut self, request: ReceivedRequest) -> Behavior {
        let path = request.path();
        let next = self.next.get_mut(path).and_then(VecDeque::pop_front);
        let behavior = next.or_else(|| self.standing.get(path).cloned());
        self.received.push(request);
        behavior.unwrap_or_else(|| self.others.clone())
    }
}

pub(super) async fn accept(
    listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<SharedState>, mut ended: watch::Receiver<()>,
) {
    loop {
        tokio::select! {
            _ = ended.changed() => return,
            connection = listener.accept() => if let Ok((stream, _)) = connection {
                tokio::spawn(connected(stream, tls.clone(), Arc::clone(&shared)));
            },
        }
    }
}

async fn connected(mut stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<SharedState>) {
    let (connection_mode, number) = shared.change(|state| {
        state.accepted += 1;
        state.open += 1;
        (state.connection_mode, state.accepted)
    });
    drop(stream.set_nodelay(true));
    match (connection_mode, tls) {
        (ConnectionMode::Reset, _) => drop(stream.set_zero_linger()),
        (ConnectionMode::Silent, _) => wire::until_closed(&mut stream).await,
        (ConnectionMode::Open, None) => serve(stream, number, &shared).await,
        (ConnectionMode::Open, Some(tls)) => {
            if let Ok(socket) = tls.accept(stream).await {
                serve(socket, number, &shared).await;
            }
        }
    }
    shared.change(|state| state.open -= 1);
}

async fn serve(mut socket: impl Socket, connection: usize, shared: &SharedState) {
    let mut read = BytesMut::with_capacity(8 << 10);
    let mut closing = shared.closing.subscribe();
    loop {
        closing.mark_unchanged();
        shared.change(|state| state.idle += 1);
        if !begins(&mut socket, &mut read, &mut closing).await {
            // Closed before it is counted: `close_idle` waits until no idle connection is left.
            drop(socket);
            shared.change(|state| state.idle -= 1);
            return;
        }
        shared.change(|state| state.idle -= 1);
        let Some((head, body)) = wire::request(&mut socket, &mut read).await else { return };
        let request = ReceivedRequest { head, body, at: Instant::now(), clock: SystemTime::now(), connection };
        let mut behavior = shared.change(|state| state.take(request));
        while let Behavior::Held(then) = behavior {
            if !is_released(&mut socket, shared).await {
                return;
            }
            behavior = *then;
        }
        if wire::behave(&mut socket, behavior).await.is_err() {
            return;
        }
    }
}

/// Waits while the receiver holds. `false` when the other end closes meanwhile.
async fn is_released(socket: &mut impl Socket, shared: &SharedState) -> bool {
    let mut holding = shared.holding.subscribe();
    tokio::select! {
        released = holding.wait_for(|holding| !holding) => released.is_ok(),
        () = wire::until_closed(socket) => false,
    }
}

/// Waits for the first bytes of a request. `false` when none are to come.
async fn begins(socket: &mut impl Socket, read: &mut BytesMut, closing: &mut watch::Receiver<()>) -> bool {
    if !read.is_empty() {
        return true;
    }
    tokio::select! {
        count = socket.read_buf(read) => matches!(count, Ok(1..)),
        _ = closing.changed() => false,
    }
}
