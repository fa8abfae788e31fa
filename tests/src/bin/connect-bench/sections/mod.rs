//! The sections, a file for each.

mod bare_server;
mod bursts;
mod cold;
mod contention;
mod delivered;
mod enquiries;
mod fairness;
mod held_bodies;
mod identified;
mod idle;
mod large;
mod memory;
mod mix;
mod open_connections;
mod pages;
mod quiet_tenant;
mod reads;
mod records;
mod refusal_times;
mod refusals;
mod scale;
mod simple;
mod single;
mod soak;
mod steady_writes;
mod throughput;
mod webhook_floors;
mod webhooks;
mod writes;

use crate::options::{Options, Section};

/// Measures a section and prints its tables.
pub(crate) async fn run(section: Section, options: &Options) {
    match section {
        Section::Identified => Box::pin(identified::run(options)).await,
        Section::Mix => Box::pin(mix::run(options)).await,
        Section::Cold => Box::pin(cold::run(options)).await,
        Section::Large => Box::pin(large::run(options)).await,
        Section::Single => Box::pin(single::run(options)).await,
        Section::Enquiries => Box::pin(enquiries::run(options)).await,
        Section::Delivered => Box::pin(delivered::run(options)).await,
        Section::Records => Box::pin(records::run(options)).await,
        Section::Contention => Box::pin(contention::run(options)).await,
        Section::Simple => Box::pin(simple::run(options)).await,
        Section::Webhooks => Box::pin(webhooks::run(options)).await,
        Section::Fairness => Box::pin(fairness::run(options)).await,
        Section::Idle => Box::pin(idle::run(options)).await,
        Section::Memory => Box::pin(memory::run(options)).await,
        Section::Refusals => Box::pin(refusals::run(options)).await,
        Section::Pages => Box::pin(pages::run(options)).await,
        Section::Scale => Box::pin(scale::run(options)).await,
        Section::Soak => Box::pin(soak::run(options)).await,
    }
}
