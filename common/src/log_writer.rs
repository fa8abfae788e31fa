//! Writes the log to standard error on its own thread, so that a slow or missing reader delays no request: a write to a full
//! pipe blocks its thread.
//!
//! Lines wait in a bounded queue. When it is full, further lines are dropped and counted.

use crate::metrics::LOG_LINES_DROPPED;
use std::io::{self, Write, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait.
const LINES_MAX: usize = 4_096;
/// Maximum number of bytes of lines that wait; a single line may be longer.
const BYTES_MAX: usize = 4 << 20;
/// Maximum time that a program waits at its end until its lines are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a flush retries to enter a full queue.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A handle to the writer thread; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    queue: SyncSender<Queued>,
    /// Bytes of the lines that wait.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Queued {
    Line(Vec<u8>),
    /// Signaled once all lines before it are written.
    Flush(SyncSender<()>),
}

static WRITER: OnceLock<LogWriter> = OnceLock::new();

impl LogWriter {
    /// Starts the writer thread, once for the process.
    pub(crate) fn start() -> io::Result<Self> {
        let (writer, queue) = Self::new(LINES_MAX);
        let waiting = Arc::clone(&writer.waiting);
        thread::Builder::new().name("log writer".to_owned()).spawn(move || write_all(&queue, &waiting))?;
        Ok(WRITER.get_or_init(|| writer).clone())
    }

    fn new(lines: usize) -> (Self, Receiver<Queued>) {
        let (queue, receiver) = sync_channel(lines);
        (Self { queue, waiting: Arc::default() }, receiver)
    }

    /// Enqueues a line if there is room; never blocks.
    fn enqueue(&self, line: &[u8]) -> bool {
        let before = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let has_room = before == 0 || before + line.len() <= BYTES_MAX;
        let is_queued = has_room && self.queue.try_send(Queued::Line(line.to_vec())).is_ok();
        if !is_queued {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        }
        is_queued
    }
}

/// Prints a line after the lines logged so far. Goes through the queue if logging has started, because the writer thread may
/// hold the lock of standard error.
pub(crate) fn print_last(line: &str) {
    match WRITER.get() {
        Some(writer) => {
            writer.enqueue(line.as_bytes());
            flush();
        }
        None => drop(stderr().write_all(line.as_bytes())),
    }
}

/// Waits until the lines logged so far are written, for at most a second, because there may be no reader.
pub(crate) fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let begun = Instant::now();
    let (written, is_written) = sync_channel(1);
    let mut message = Queued::Flush(written);
    while let Err(TrySendError::Full(back)) = writer.queue.try_send(message) {
        if begun.elapsed() > FLUSH_TIMEOUT {
            return;
        }
        message = back;
        thread::sleep(RETRY_INTERVAL);
    }
    // An error means that the timeout has passed.
    let _ = is_written.recv_timeout(FLUSH_TIMEOUT.saturating_sub(begun.elapsed()));
}

fn write_all(queue: &Receiver<Queued>, waiting: &AtomicUsize) {
    for queued in queue {
        match queued {
            Queued::Line(line) => {
                // A line that cannot be written is lost, because there is no other place to report it.
                drop(stderr().write_all(&line));
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            // The waiting thread may have timed out.
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
    fn drops_lines_beyond_the_limits_of_number_and_size() {
        let (writer, queue) = LogWriter::new(2);
        let long = vec![b'x'; BYTES_MAX + 1];
        assert!(writer.enqueue(&long), "a line that finds none waiting is taken however long it is");
        assert!(!writer.enqueue(b"no bytes are left"));
        drop(queue.recv());
        writer.waiting.store(0, Ordering::Relaxed);
        assert_eq!([b"1", b"2", b"3"].map(|line| writer.enqueue(line)), [true, true, false]);
        assert_eq!(writer.waiting.load(Ordering::Relaxed), 2);
    }
}
