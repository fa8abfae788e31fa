//! Exports spans in the background (OTLP over HTTP, in JSON), through a bounded queue that never blocks.

use super::span::{Attribute, FinishedSpan, SpanKind};
use crate::metrics::TRACE_SPANS;
use crate::settings::TraceSettings;
use crate::tls::{TrustedRoots, explain_tls_of};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
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
    let collector = Collector::new(url).map_err(|error| format!("setting OTEL_EXPORTER_OTLP_ENDPOINT: {error}"))?;
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
        let body = body(self.service, batch);
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

/// The time limit of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A response is read up to this size.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// An HTTP client that posts spans to the collector.
#[derive(Debug)]
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
}

impl Collector {
    /// A client that posts to `url`. The error says why TLS cannot be set up.
    fn new(url: Uri) -> Result<Self, String> {
        let is_encrypted = url.scheme_str() == Some("https");
        let roots = if is_encrypted { TrustedRoots::system() } else { TrustedRoots::none() };
        if is_encrypted && roots.is_empty() {
            return Err("no root certificates are installed".to_owned());
        }
        let tls = roots.client()?.with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), url })
    }

    /// Posts an export. The error says why the collector did not accept it, and contains no header.
    async fn export(&self, body: Vec<u8>) -> Result<(), String> {
        let exchange = timeout(EXPORT_TIMEOUT, self.exchange(body)).await;
        exchange.unwrap_or_else(|_elapsed| Err(format!("no response within {EXPORT_TIMEOUT:?}")))
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<(), String> {
        let request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "*/*")
            .header(USER_AGENT, crate::version::USER_AGENT)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| explain_tls_of(&error, "SSL_CERT_FILE").unwrap_or_else(|| error.to_string()))?;
        let status = response.status();
        // The body is read so that the connection can be reused.
        drop(Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await);
        if status.is_success() { Ok(()) } else { Err(format!("status {}", status.as_u16())) }
    }
}

/// The status of a span that failed.
const ERROR: u8 = 2;

/// The body of an export: `spans` of the program `service`.
fn body(service: &str, spans: &[FinishedSpan]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        attribute("service.name", &Attribute::Text(service.to_owned().into())),
        attribute("service.version", &version.into()),
    ];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({"scope": {"name": "connect", "version": version}, "spans": spans});
    let body = json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]});
    body.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let begun = span.begun_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut json = json!({
        "traceId": span.context.trace_id.to_string(),
        "spanId": span.context.span_id.to_string(),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanos(begun),
        "endTimeUnixNano": nanos(begun + span.took),
        "attributes": attributes,
        "status": if span.is_failed { json!({"code": ERROR}) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = parent.to_string().into();
    }
    json
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

const fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Consumer => 5,
    }
}

fn nanos(since_epoch: Duration) -> String {
    since_epoch.as_nanos().to_string()
}
