//! The pages and what their forms do, a file for each.

mod activity;
pub(crate) mod agency;
pub(crate) mod audit;
pub(crate) mod chart;
pub(crate) mod clients;
pub(crate) mod deliveries;
mod filter;
pub(crate) mod form;
pub(crate) mod keys;
pub(crate) mod leads;
pub(crate) mod members;
pub(crate) mod overview;
pub(crate) mod partners;
pub(crate) mod pipeline;
pub(crate) mod queues;
pub(crate) mod refusals;
pub(crate) mod replays;
pub(crate) mod runbook;
pub(crate) mod search;
pub(crate) mod sign_in;
pub(crate) mod signature;
pub(crate) mod usage;
pub(crate) mod webhooks;
