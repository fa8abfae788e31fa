//! A proxy in front of RabbitMQ that records the messages which go through it.

use crate::threads::serve;
use crate::url::{address, with_address};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Bytes that AMQP 0-9-1 begins a connection with, before the first frame.
const PROTOCOL_HEADER: usize = 8;
/// Type, channel and size of a frame before its payload, and the octet that ends it.
const FRAME_HEADER: usize = 7;
const FRAME_END: usize = 1;
const METHOD_FRAME: u8 = 1;
/// Class `basic`, and its methods.
const BASIC: u16 = 60;
const PUBLISH: u16 = 40;
const DELIVER: u16 = 60;
const ACK: u16 = 80;

/// Messages between a program and the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// The routing keys of those that the program published, in their order.
    pub published: Vec<String>,
    /// How many the broker delivered.
    pub delivered: usize,
    /// How many acknowledgements the program sent; one may be of several messages.
    pub acknowledgements: usize,
}

/// A proxy that records messages. It runs until the test's process ends.
#[derive(Debug)]
pub struct MessageRecorder {
    url: String,
    messages: Arc<Mutex<Messages>>,
}

/// The end of a connection that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Program,
    Broker,
}

impl MessageRecorder {
    /// A recorder in front of the broker of `amqp_url`. It runs on its own thread.
    pub fn in_front_of(amqp_url: &str) -> Self {
        let (broker, messages) = (address(amqp_url, 5672), Arc::default());
        let recorded = Arc::clone(&messages);
        let own = serve(|listener| accept(listener, broker, recorded));
        Self { url: with_address(amqp_url, own), messages }
    }

    /// `AMQP_URL` through the recorder.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The messages since the last call.
    pub fn take(&self) -> Messages {
        std::mem::take(&mut self.messages.lock())
    }
}

async fn accept(listener: TcpListener, broker: String, messages: Arc<Mutex<Messages>>) {
    while let Ok((program, _)) = listener.accept().await {
        let Ok(broker) = TcpStream::connect(&broker).await else { continue };
        let ((from_program, to_program), (from_broker, to_broker)) = (program.into_split(), broker.into_split());
        tokio::spawn(pump(from_program, to_broker, Sender::Program, Arc::clone(&messages)));
        tokio::spawn(pump(from_broker, to_program, Sender::Broker, Arc::clone(&messages)));
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, sender: Sender, messages: Arc<Mutex<Messages>>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    let mut skipped = if sender == Sender::Program { PROTOCOL_HEADER } else { 0 };
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let skip = skipped.min(read);
        skipped -= skip;
        pending.extend_from_slice(&buffer[skip..read]);
        while let Some(frame) = take_frame(&mut pending) {
            if frame[0] == METHOD_FRAME {
                let mut messages = messages.lock();
                messages.record(sender, &frame[FRAME_HEADER..]);
            }
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Takes a whole frame out of `pending`.
fn take_frame(pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    let size = pending.get(3..FRAME_HEADER)?.try_into().map(u32::from_be_bytes).ok()? as usize;
    let length = FRAME_HEADER + size + FRAME_END;
    (pending.len() >= length).then(|| pending.drain(..length).collect())
}

impl Messages {
    fn record(&mut self, sender: Sender, method: &[u8]) {
        let number = |at: usize| u16::from_be_bytes([method[at], method[at + 1]]);
        match (number(0), number(2), sender) {
            (BASIC, PUBLISH, Sender::Program) => self.published.push(routing_key(&method[4..])),
            (BASIC, DELIVER, Sender::Broker) => self.delivered += 1,
            (BASIC, ACK, Sender::Program) => self.acknowledgements += 1,
            _ => {}
        }
    }
}

/// The routing key among the arguments of `basic.publish`: behind a reserved number and the exchange's name.
fn routing_key(arguments: &[u8]) -> String {
    let at = 2 + 1 + usize::from(arguments[2]);
    let key = &arguments[at + 1..=at + usize::from(arguments[at])];
    String::from_utf8_lossy(key).into_owned()
}
