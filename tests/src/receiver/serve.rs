//! Connections and what happens on them.

use super::behaviour::Behaviour;
use super::received::Received;
use super::wire::{self, Socket};
use bytes::BytesMut;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Door {
    #[default]
    Open,
    Resets,
    Silent,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) received: Vec<Received>,
    pub(super) next: HashMap<String, VecDeque<Behaviour>>,
    pub(super) standing: HashMap<String, Behaviour>,
    pub(super) others: Behaviour,
    pub(super) door: Door,
    pub(super) accepted: usize,
    pub(super) open: usize,
    /// Of the open ones, those that wait for a request.
    pub(super) idle: usize,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Tells idle connections to close.
    closing: watch::Sender<()>,
    /// Whether requests that can be held are.
    holding: watch::Sender<bool>,
}

impl Default for Shared {
    fn default() -> Self {
        let state = State {
            received: Vec::new(),
            next: HashMap::new(),
            standing: HashMap::new(),
            others: Behaviour::status(204),
            door: Door::Open,
            accepted: 0,
            open: 0,
            idle: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
            closing: watch::Sender::new(()),
            holding: watch::Sender::new(false),
        }
    }
}

impl Shared {
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
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
    /// Puts a request on record and says what to do with it.
    fn take(&mut self, request: Received) -> Behaviour {
        let path = request.path();
        let next = self.next.get_mut(path).and_then(VecDeque::pop_front);
        let behaviour = next.or_else(|| self.standing.get(path).cloned());
        self.received.push(request);
        behaviour.unwrap_or_else(|| self.others.clone())
    }
}

/// Serves until the receiver is dropped.
pub(super) async fn accept(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    mut ended: watch::Receiver<()>,
) {
    let listener = TcpListener::from_std(listener).expect("a listener of this runtime");
    loop {
        tokio::select! {
            _ = ended.changed() => return,
            connection = listener.accept() => if let Ok((stream, _)) = connection {
                tokio::spawn(connected(stream, tls.clone(), Arc::clone(&shared)));
            },
        }
    }
}

async fn connected(mut stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let (door, number) = shared.change(|state| {
        state.accepted += 1;
        state.open += 1;
        (state.door, state.accepted)
    });
    drop(stream.set_nodelay(true));
    match (door, tls) {
        (Door::Resets, _) => drop(stream.set_zero_linger()),
        (Door::Silent, _) => wire::until_closed(&mut stream).await,
        (Door::Open, None) => serve(stream, number, &shared).await,
        (Door::Open, Some(tls)) => {
            if let Ok(socket) = tls.accept(stream).await {
                serve(socket, number, &shared).await;
            }
        }
    }
    shared.change(|state| state.open -= 1);
}

async fn serve(mut socket: impl Socket, connection: usize, shared: &Shared) {
    let mut read = BytesMut::with_capacity(8 << 10);
    let mut closing = shared.closing.subscribe();
    loop {
        closing.mark_unchanged();
        shared.change(|state| state.idle += 1);
        if !begins(&mut socket, &mut read, &mut closing).await {
            // Closed first: who waits for no idle connections waits for that.
            drop(socket);
            shared.change(|state| state.idle -= 1);
            return;
        }
        shared.change(|state| state.idle -= 1);
        let Some((head, body)) = wire::request(&mut socket, &mut read).await else { return };
        let request = Received { head, body, at: Instant::now(), clock: SystemTime::now(), connection };
        let mut behaviour = shared.change(|state| state.take(request));
        while let Behaviour::Held(then) = behaviour {
            if !is_released(&mut socket, shared).await {
                return;
            }
            behaviour = *then;
        }
        if wire::behave(&mut socket, behaviour).await.is_err() {
            return;
        }
    }
}

/// Waits while the receiver holds. `false` when the other end closes meanwhile.
async fn is_released(socket: &mut impl Socket, shared: &Shared) -> bool {
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
