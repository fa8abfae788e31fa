//! WebhookFloors of a delivery: the cost of each part by itself, for the same messages on the same servers.

use super::webhooks::DELIVERIES;
use crate::time_limit::with_step_timeout;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use futures_util::{StreamExt, try_join};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::time::Instant;
use tests::{Receiver, World};
use tokio::net::TcpStream;
use uuid::Uuid;

/// Requests of the bare client at once: as many as the dispatcher has for one subscription.
const CLIENTS: usize = 32;
/// Rows of one bare insert.
const ROWS: usize = 512;
/// Prefetch of the bare queue's consumer.
const PREFETCH: u16 = 1_024;

/// Rates of the parts, in messages per second.
pub(crate) struct WebhookFloors {
    /// Signed messages posted to the receiver.
    pub(crate) post: f64,
    /// Messages sent through a quorum queue.
    pub(crate) queue: f64,
    /// Messages whose rows are inserted.
    pub(crate) rows: f64,
}

impl WebhookFloors {
    /// The rate if all parts are done one after the other.
    pub(crate) fn together(&self) -> f64 {
        1.0 / (1.0 / self.post + 1.0 / self.queue + 1.0 / self.rows)
    }
}

/// The body of a webhook as a dispatcher sends it.
pub(crate) fn envelope() -> String {
    let id = Uuid::nil();
    format!(
        r#"{{"specVersion":"1.0","eventId":"{id}","eventType":"lead.assigned","occurredAt":"2026-01-02T03:04:05.678Z","tenant":"acme","origin":"crm","actor":{{"type":"contact","email":"traveller@example.com","name":"Bench Traveller"}},"payload":{{"leadId":"{id}","clientId":"{id}","tripId":"{id}","enquiryNumber":"ENQ-2026-000001","owner":{{"email":"asha@acme.test","name":"Asha"}},"previousOwner":null}}}}"#
    )
}

/// Measures the floors of a burst with `events` events.
pub(crate) async fn measure(world: &World, receiver: &Receiver, events: usize) -> WebhookFloors {
    WebhookFloors {
        post: rate("a bare client posts the messages", post(receiver)).await,
        queue: rate("a bare queue transports the messages", queue(world.queues.url())).await,
        rows: rate("the rows are inserted", rows(world, events)).await,
    }
}

async fn rate(what: &str, work: impl Future<Output = ()>) -> f64 {
    let begun = Instant::now();
    with_step_timeout(what, work).await;
    DELIVERIES as f64 / begun.elapsed().as_secs_f64()
}

/// Posts them over connections that are kept alive, each signed again.
async fn post(receiver: &Receiver) {
    receiver.clear_received();
    let body = Bytes::from(envelope());
    let client = async || {
        let stream = TcpStream::connect(receiver.address()).await.expect("a connection");
        stream.set_nodelay(true).expect("an option of the connection");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let driver = tokio::spawn(connection);
        let secret: &[u8] = b"whsec_0123456789012345678901234567890123456789012";
        for _ in 0..DELIVERIES / CLIENTS {
            let signature = common::signature::sign_webhook([secret], tests::now(), &body);
            let request = Request::post("/0")
                .header("host", "127.0.0.1")
                .header("content-type", "application/json")
                .header("x-connect-signature", signature)
                .header("x-connect-delivery", Uuid::now_v7().to_string())
                .body(Full::new(body.clone()))
                .expect("a request");
            sender.ready().await.expect("the connection is there");
            let response = sender.send_request(request).await.expect("a response");
            assert!(response.status().is_success());
            drop(response.into_body().collect().await);
        }
        drop(sender);
        drop(driver.await);
    };
    join_all((0..CLIENTS).map(|_| client())).await;
}

/// Publishes them with confirms while taking and acknowledging them.
async fn queue(url: &str) {
    let connect = async || Connection::connect(url, ConnectionProperties::default()).await;
    let (publishing, consuming) = try_join!(connect(), connect()).expect("the broker accepts connections");
    let name = format!("connect_bench_{}", Uuid::now_v7().simple());
    let publisher = publishing.create_channel().await.expect("a channel");
    publisher.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let declared =
        publisher.queue_declare(name.as_str().into(), QueueDeclareOptions::durable(), arguments).await;
    drop(declared.expect("a queue"));
    let consumer = consuming.create_channel().await.expect("a channel");
    consumer.basic_qos(PREFETCH, BasicQosOptions::default()).await.expect("a prefetch");
    let options = BasicConsumeOptions::default();
    let mut deliveries = consumer
        .basic_consume(name.as_str().into(), "".into(), options, FieldTable::default())
        .await
        .expect("a consumer");
    let body = envelope();
    let publish = async {
        let properties = || BasicProperties::default().with_delivery_mode(2);
        for _ in 0..DELIVERIES / ROWS + 1 {
            let mut confirms = Vec::with_capacity(ROWS);
            for _ in 0..ROWS {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let sent = publisher.basic_publish(
                    "".into(),
                    name.as_str().into(),
                    options,
                    body.as_bytes(),
                    properties(),
                );
                confirms.push(sent.await.expect("a publish"));
            }
            try_join_all(confirms).await.expect("confirms");
        }
    };
    let consume = async {
        for _ in 0..DELIVERIES {
            let delivery = deliveries.next().await.expect("the consumer runs").expect("a message");
            delivery.ack(BasicAckOptions::default()).await.expect("an acknowledgement");
        }
    };
    futures_util::join!(publish, consume);
    drop(publisher.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await);
}

/// Inserts the rows of outbox, deliveries and attempts, for a tenant without subscriptions.
async fn rows(world: &World, events: usize) {
    let client = world.database.connect().await;
    let tenant = Uuid::now_v7();
    let envelope = envelope();
    let deliveries_each = DELIVERIES / events;
    for chunk in (0..events).collect::<Vec<_>>().chunks((ROWS / deliveries_each).max(1)) {
        let event_ids: Vec<Uuid> = chunk.iter().map(|_| Uuid::now_v7()).collect();
        let ids: Vec<Uuid> = (0..chunk.len() * deliveries_each).map(|_| Uuid::now_v7()).collect();
        let of_event: Vec<Uuid> =
            event_ids.iter().flat_map(|id| std::iter::repeat_n(*id, deliveries_each)).collect();
        let written = async {
            client.batch_execute("BEGIN").await?;
            client
                .execute(
                    "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, relayed_at)
                     SELECT $1, id, 'lead.assigned', 'crm', $3::text::json, now(), now() FROM unnest($2::uuid[]) AS id",
                    &[&tenant, &event_ids, &envelope],
                )
                .await?;
            client
                .execute(
                    "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at)
                     SELECT $1, id, event, event, 'dropped', now() FROM unnest($2::uuid[], $3::uuid[]) AS d (id, event)",
                    &[&tenant, &ids, &of_event],
                )
                .await?;
            client
                .execute(
                    "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
                     SELECT $1, id, 1, now(), 204, 1 FROM unnest($2::uuid[]) AS id",
                    &[&tenant, &ids],
                )
                .await?;
            client.batch_execute("COMMIT").await
        };
        written.await.unwrap_or_else(|error| panic!("the floor's inserts: {error:?}"));
    }
}
