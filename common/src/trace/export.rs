//! Exporting spans in the background: bounded, and never in anything's way.

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

/// Spans that wait; further ones are dropped, and counted.
const WAITING: usize = 4_096;
/// Most spans of one export.
const TOGETHER: usize = 512;
/// How long a span waits for others to go with it.
const GATHER: Duration = Duration::from_millis(500);
/// Longest that a program's end waits for the last export.
const FLUSH_WITHIN: Duration = Duration::from_millis(800);

static QUEUE: OnceLock<mpsc::Sender<FinishedSpan>> = OnceLock::new();

/// The export of this program's spans, if there is one.
#[derive(Debug)]
pub struct Exporter(Option<Running>);

#[derive(Debug)]
struct Running {
    ending: CancellationToken,
    task: JoinHandle<()>,
}

/// Begins to export spans of the program `service`, if `settings` say where to. The error names the setting.
pub fn start(settings: &TraceSettings, service: &'static str) -> Result<Exporter, String> {
    let Some(url) = settings.url.clone() else { return Ok(Exporter(None)) };
    let collector =
        Collector::new(url).map_err(|error| format!("setting OTEL_EXPORTER_OTLP_ENDPOINT: {error}"))?;
    let (sender, spans) = mpsc::channel(WAITING);
    let ending = CancellationToken::new();
    let export = Export { spans, collector, service, is_failing: false };
    if QUEUE.set(sender).is_err() {
        return Err("spans are exported already".to_owned());
    }
    Ok(Exporter(Some(Running { ending: ending.clone(), task: tokio::spawn(export.run(ending)) })))
}

/// Whether sampled spans are exported.
pub fn is_exporting() -> bool {
    QUEUE.get().is_some()
}

/// Exports `span` some time, if there is room.
pub(super) fn hand_in(span: FinishedSpan) {
    if let Some(queue) = QUEUE.get()
        && queue.try_send(span).is_err()
    {
        count("dropped", 1);
    }
}

impl Exporter {
    /// Exports what waits, unless that takes too long.
    pub async fn flush(self) {
        let Some(Running { ending, task }) = self.0 else { return };
        ending.cancel();
        let stop = task.abort_handle();
        if timeout(FLUSH_WITHIN, task).await.is_err() {
            stop.abort();
            tracing::warn!("the last spans were not exported");
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
        let mut batch = Vec::with_capacity(TOGETHER);
        while let Some(1..) = ending.run_until_cancelled(self.spans.recv_many(&mut batch, TOGETHER)).await {
            if batch.len() < TOGETHER {
                ending.run_until_cancelled(sleep(GATHER)).await;
                self.gather(&mut batch);
            }
            self.export(&mut batch).await;
        }
        while self.gather(&mut batch) {
            self.export(&mut batch).await;
        }
    }

    /// Takes what waits, as much as goes together; whether there is anything.
    fn gather(&mut self, batch: &mut Vec<FinishedSpan>) -> bool {
        while batch.len() < TOGETHER {
            let Ok(span) = self.spans.try_recv() else { break };
            batch.push(span);
        }
        !batch.is_empty()
    }

    /// Exports once. What isn't taken is dropped: spans are worth neither memory nor an outage.
    async fn export(&mut self, batch: &mut Vec<FinishedSpan>) {
        let body = otlp::body(self.service, batch);
        let spans = batch.len();
        batch.clear();
        match self.collector.take(body).await {
            Ok(()) => {
                count("exported", spans);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("spans are exported again");
                }
            }
            Err(error) => {
                count("failed", spans);
                // Once for each outage.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(error, "spans can't be exported and are dropped");
                }
            }
        }
    }
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!(TRACE_SPANS, "outcome" => outcome).increment(spans as u64);
}
