//! Writes the log to standard error on a thread of its own, so that whoever reads it too slowly, or not at all, delays no
//! request: a write to a full pipe blocks the thread that makes it.
//!
//! Lines wait in a bounded queue. One that finds it full is dropped and counted.

use crate::metrics::LOG_LINES_DROPPED;
use std::io::{self, Write, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait.
const LINES: usize = 4_096;
/// Bytes of lines that may wait; a line that finds none waiting may be longer.
const BYTES: usize = 4 << 20;
/// Longest that a program waits at its end until its lines are written.
const FLUSH: Duration = Duration::from_secs(1);
/// How often it looks whether there is room in a full queue.
const LOOK: Duration = Duration::from_millis(5);

/// The log's way to standard error; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    queue: SyncSender<Queued>,
    /// Bytes of the lines that wait.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Queued {
    Line(Vec<u8>),
    /// Told once all lines before it are written.
    Flush(SyncSender<()>),
}

/// The writer of this process.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

impl LogWriter {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (writer, queue) = Self::new(LINES);
        let waiting = Arc::clone(&writer.waiting);
        thread::Builder::new().name("log writer".to_owned()).spawn(move || write_all(&queue, &waiting))?;
        Ok(WRITER.get_or_init(|| writer).clone())
    }

    fn new(lines: usize) -> (Self, Receiver<Queued>) {
        let (queue, receiver) = sync_channel(lines);
        (Self { queue, waiting: Arc::default() }, receiver)
    }

    /// Puts a line into the queue if there is room. Waits for nothing.
    fn enqueue(&self, line: &[u8]) -> bool {
        let before = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let has_room = before == 0 || before + line.len() <= BYTES;
        let is_queued = has_room && self.queue.try_send(Queued::Line(line.to_vec())).is_ok();
        if !is_queued {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        }
        is_queued
    }
}

/// Prints a line after what was logged so far: through the queue where there is one, as its thread may hold standard error
/// for ever.
pub(crate) fn print_last(line: &str) {
    match WRITER.get() {
        Some(writer) => {
            writer.enqueue(line.as_bytes());
            flush();
        }
        None => drop(stderr().write_all(line.as_bytes())),
    }
}

/// Waits until what was logged so far is written, but no longer than a second: there may be no reader.
pub(crate) fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let begun = Instant::now();
    let (written, is_written) = sync_channel(1);
    let mut message = Queued::Flush(written);
    while let Err(TrySendError::Full(back)) = writer.queue.try_send(message) {
        if begun.elapsed() > FLUSH {
            return;
        }
        message = back;
        thread::sleep(LOOK);
    }
    // An error means that it took too long.
    let _ = is_written.recv_timeout(FLUSH.saturating_sub(begun.elapsed()));
}

fn write_all(queue: &Receiver<Queued>, waiting: &AtomicUsize) {
    for queued in queue {
        match queued {
            Queued::Line(line) => {
                // A line that can't be written is lost; there is nowhere to complain of it.
                drop(stderr().write_all(&line));
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            // Whoever wanted to know may have given up.
            Queued::Flush(written) => drop(written.try_send(())),
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !self.enqueue(line) {
            metrics::counter!(LOG_LINES_DROPPED).increment(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_up_to_a_number_and_a_size_and_the_rest_is_dropped() {
        let (writer, queue) = LogWriter::new(2);
        let long = vec![b'x'; BYTES + 1];
        assert!(writer.enqueue(&long), "a line that finds none waiting is taken however long it is");
        assert!(!writer.enqueue(b"no bytes are left"));
        drop(queue.recv());
        writer.waiting.store(0, Ordering::Relaxed);
        assert_eq!([b"1", b"2", b"3"].map(|line| writer.enqueue(line)), [true, true, false]);
        assert_eq!(writer.waiting.load(Ordering::Relaxed), 2);
    }
}
