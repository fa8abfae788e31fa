//! The queues, and their dead letters with their reasons, without bodies; for operators.

use crate::context::{Change, Context, RequestSteps, View};
use crate::failure::Failure;
use crate::format::{data_table, number, time_or};
use crate::layout;
use crate::pages::form::confirmation;
use admin::SilentObserver;
use admin::audit::Actor;
use admin::queues::{self, DeadLetterDrop, DeadLetterView, MacStatus};
use admin::tenants::{self, Tenant};
use common::broker::Queue;
use maud::{Markup, html};
use warp::reply::Response;

/// The queue in the path.
fn queue(context: &Context<'_>) -> Result<Queue, Failure> {
    let name = context.id()?;
    Queue::ALL.into_iter().find(|queue| queue.as_str() == name).ok_or(Failure::NotFound)
}

pub(crate) async fn list(context: Context<'_>) -> Result<Response, Failure> {
    let broker = context.app.broker.connect().await?;
    let listed = queues::list(&broker.connection).await;
    broker.close().await;
    let mut listed = listed?;
    queues::add_ages(&*context.lease().await?, &mut listed).await?;
    let has_dead_letters = listed.iter().any(|queue| queue.name.ends_with(".dead") && queue.depth > Some(0));
    let content = html! {
        @if has_dead_letters {
            p.alert { "There are dead letters. Look at their reasons, correct the cause, and requeue them." }
        }
        div data-refresh="10" {
            (data_table(&["Queue", "#Waiting", "Oldest", "#Consumers", "#Dead letters"], &html! {
                @for queue in &listed {
                    tr {
                        th scope="row" { a href={ "/queues/" (queue.name.trim_end_matches(".dead")) } { (queue.name) } }
                        td.number { (count(queue.depth)) }
                        td { (time_or(queue.oldest.as_deref(), "-")) }
                        td.number { (count(queue.consumers)) }
                        td.number { (count(queue.dead)) }
                    }
                }
            }))
        }
        p.soft { "The oldest message was published at that time or later. A dash means that nothing waits, that its age is not known, or that there is no such queue. Webhooks wait in the database: webhooks.dead has a notice of each one that failed." }
    };
    Ok(layout::page(&context, "Queues", &content))
}

fn count(value: Option<u32>) -> Markup {
    html! { @match value { Some(value) => (number(value.into())), None => "-" } }
}

/// Maximum number of dead letters that are shown, the oldest ones.
const SHOWN_MAX: u32 = 100;

pub(crate) async fn dead_letters(context: Context<'_>) -> Result<Response, Failure> {
    let queue = queue(&context)?;
    let broker = context.app.broker.connect().await?;
    let listed = queues::dead_letters(&broker.connection, queue, SHOWN_MAX, Some(&context.app.master_keys)).await;
    broker.close().await;
    let listed = listed?;
    let agencies = if listed.is_empty() { Vec::new() } else { tenants::list(&*context.lease().await?).await? };
    let path = format!("/queues/{}", queue.as_str());
    let content = html! {
        @if listed.is_empty() {
            p { "There are no dead letters in this queue." }
        } @else {
            div.actions {
                a.button href={ (path) "/requeue" } { "Requeue" }
                a.button.danger href={ (path) "/drop" } { "Drop" }
            }
            p.soft { "The oldest " (listed.len()) ". Bodies are not shown, because they contain contact data." }
            (table(&listed, &agencies))
        }
        p { a href="/queues" { "All queues" } }
    };
    Ok(layout::page(&context, &format!("Dead letters of {}", queue.as_str()), &content))
}

/// A line each. Of a webhook that failed the type leads to its delivery.
fn table(listed: &[DeadLetterView], agencies: &[Tenant]) -> Markup {
    let rows = html! {
        @for letter in listed {
            @let about = &letter.metadata;
            @let agency = agencies.iter().find(|agency| Some(agency.id) == about.tenant_id).map(|agency| agency.slug.as_str());
            @let kind = about.kind.as_deref().unwrap_or("unknown");
            @let why = letter.why.replace("see connectctl delivery show", letter.reason.as_deref().unwrap_or("see its delivery"));
            @let id = about.request_id.map(|id| id.to_string());
            tr {
                th scope="row" {
                    @if let Some((agency, id)) = agency.zip(about.delivery_id) { a href={ "/agencies/" (agency) "/deliveries/" (id) } { (kind) } }
                    @else { (kind) }
                }
                td { (agency.unwrap_or("-")) }
                td.wide title=(why) { (why) }
                // What no broker has dead-lettered was published as a dead letter.
                td { (time_or(letter.at.as_deref().or(about.published_at.as_deref()), "-")) }
                td { (letter.mac.map_or("-", MacStatus::as_str)) }
                td.long title=[id.as_ref().or(letter.message_id.as_ref())] {
                    @if let Some(id) = &id { a href={ "/find?id=" (id) } { "request " (id) } }
                    @else { (letter.message_id.as_deref().unwrap_or("-")) }
                }
                td.number { (letter.bytes) }
            }
        }
    };
    html! { div.lines { (data_table(&["Type", "Agency", "Why", "Dead-lettered", "~MAC", "~Id", "~#Bytes"], &rows)) } }
}

pub(crate) async fn confirm_requeue(view: View<'_>) -> Result<Response, Failure> {
    let queue = queue(&view)?;
    let page = format!("/queues/{}", queue.as_str());
    let question = html! {
        p { "All dead letters of the queue are processed again. If the cause was not corrected, they come back." }
        @if queue == Queue::Webhooks { p { "Their deliveries are replayed with the same ids. Those that were replayed or delivered meanwhile are left out." } }
    };
    let content = confirmation(&view, &format!("{page}/requeue"), "Requeue the dead letters", &page, &question);
    Ok(layout::page(&view, &format!("Requeue the dead letters of {}?", queue.as_str()), &content))
}

pub(crate) async fn requeue(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let queue = queue(&context)?;
    let requeue = async |database: &mut RequestSteps<'_>, actor: &Actor| {
        let (broker, observer) = (context.app.broker.connect().await?, &mut SilentObserver);
        let requeued = queues::requeue(database, actor, &broker.connection, queue, None, observer).await;
        broker.close().await;
        Ok(requeued?)
    };
    change.run_in_steps(format!("/queues/{}?done=requeued", queue.as_str()), requeue).await
}

pub(crate) async fn confirm_drop(context: Context<'_>) -> Result<Response, Failure> {
    let queue = queue(&context)?;
    let broker = context.app.broker.connect().await?;
    let counted = DeadLetterDrop::prepare(&broker.connection, queue).await.map(|letters| letters.count());
    broker.close().await;
    let count = number(counted?.into());
    let page = format!("/queues/{}", queue.as_str());
    let question = html! { p { "Dead letters to drop: " strong { (count) } ". Their content is lost for good." } };
    let content = confirmation(&context, &format!("{page}/drop"), "Drop them for good", &page, &question);
    Ok(layout::page(&context, &format!("Drop the dead letters of {}?", queue.as_str()), &content))
}

pub(crate) async fn drop_all(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let queue = queue(&context)?;
    let drop = async |database: &mut RequestSteps<'_>, actor: &Actor| {
        let broker = context.app.broker.connect().await?;
        let dropped = match DeadLetterDrop::prepare(&broker.connection, queue).await {
            Ok(letters) => letters.run(database, actor, &mut SilentObserver).await,
            Err(error) => Err(error),
        };
        broker.close().await;
        Ok(dropped?)
    };
    change.run_in_steps(format!("/queues/{}?done=dropped", queue.as_str()), drop).await
}
