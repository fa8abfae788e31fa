//! Exports spans in the background, through a bounded queue that never blocks.

use super::collector::Collector;
use super::otlp;
use super::span::FinishedSpan;
use crate::metrics::TRACE_SPANS;
use crate::settings::TraceSettings;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum number of spans that wait for export; further ones are dropped and counted.
const QUEUE_MAX: usize = 4_096;
/// Maximum number of spans of one export.
const BATCH_MAX: usize = 512;
/// How long spans wait for further ones before they are exported.
const BATCH_WAIT: Duration = Duration::from_millis(500);
/// Maximum time that a program waits for the last export when it ends.
const FLUSH_WITHIN: Duration = Duration::from_millis(800);

static QUEUE: OnceLock<mpsc::Sender<FinishedSpan>> = OnceLock::new();

/// The background export of this program's spans; empty when export is disabled.
#[derive(Debug)]
pub struct Exporter(Option<Running>);

#[derive(Debug)]
struct Running {
    ending: CancellationToken,
    task: JoinHandle<()>,
}

/// Starts the export of the spans of the program `service`, if `settings` name a collector. The error names the setting.
pub fn start(settings: &TraceSettings, service: &'static str) -> Result<Exporter, String> {
    let Some(url) = settings.url.clone() else { return Ok(Exporter(None)) };
    let collector =
        Collector::new(url).map_err(|error| format!("setting OTEL_EXPORTER_OTLP_ENDPOINT: {error}"))?;
    let (sender, spans) = mpsc::channel(QUEUE_MAX);
    let ending = CancellationToken::new();
    let export = Export { spans, collector, service, is_failing: false };
    if QUEUE.set(sender).is_err() {
        return Err("the span export was started already".to_owned());
    }
    Ok(Exporter(Some(Running { ending: ending.clone(), task: tokio::spawn(export.run(ending)) })))
}

/// Whether sampled spans are exported.
pub(crate) fn is_exporting() -> bool {
    QUEUE.get().is_some()
}

/// Enqueues `span` for export, or drops it if the queue is full.
pub(super) fn enqueue(span: FinishedSpan) {
    if let Some(queue) = QUEUE.get()
        && queue.try_send(span).is_err()
    {
        count("dropped", 1);
    }
}

impl Exporter {
    /// Exports the spans that wait, within a time limit.
    pub async fn flush(self) {
        let Some(Running { ending, task }) = self.0 else { return };
        ending.cancel();
        let stop = task.abort_handle();
        if timeout(FLUSH_WITHIN, task).await.is_err() {
            stop.abort();
            tracing::warn!("the last spans were not exported in time; dropping them");
        }
    }
}

struct Export {
    spans: mpsc::Receiver<FinishedSpan>,
    collector: Collector,
    service: &'static str,
    is_failing: bool,
}

impl Export {
    async fn run(mut self, ending: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Some(1..) = ending.run_until_cancelled(self.spans.recv_many(&mut batch, BATCH_MAX)).await {
            if batch.len() < BATCH_MAX {
                ending.run_until_cancelled(sleep(BATCH_WAIT)).await;
                self.gather(&mut batch);
            }
            self.export(&mut batch).await;
        }
        while self.gather(&mut batch) {
            self.export(&mut batch).await;
        }
    }

    /// Fills the batch with waiting spans; returns whether it has any.
    fn gather(&mut self, batch: &mut Vec<FinishedSpan>) -> bool {
        while batch.len() < BATCH_MAX {
            let Ok(span) = self.spans.try_recv() else { break };
            batch.push(span);
        }
        !batch.is_empty()
    }

    /// Exports a batch, once. A batch that the collector does not accept is dropped, so that memory stays bounded.
    async fn export(&mut self, batch: &mut Vec<FinishedSpan>) {
        let body = otlp::body(self.service, batch);
        let spans = batch.len();
        batch.clear();
        match self.collector.export(body).await {
            Ok(()) => {
                count("exported", spans);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("exporting spans succeeded; no longer dropping spans");
                }
            }
            Err(error) => {
                count("failed", spans);
                // Logged once for each outage of the collector.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(error, "exporting spans failed; dropping spans until it works again");
                }
            }
        }
    }
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!(TRACE_SPANS, "outcome" => outcome).increment(spans as u64);
}
