//! connect-console: the settings area in the browser, for agencies, partners and operators. `--help` lists its settings.
//!
//! The operations are in the library of this crate, which `connectctl` uses as well. A request passes `server` (connections),
//! `dispatch` (route, session, rights, check of forms) and one function in `pages`. [`routes`] is the table of all routes with
//! the rights that each needs. Pages get a [`context::View`], which can only read. Only [`context::Change`] can change
//! something, and only `dispatch` makes one, after it has checked origin, session and rights.

mod access;
mod app;
mod contacts;
mod context;
mod cookies;
mod database;
mod dispatch;
mod failure;
mod fields;
mod format;
mod layout;
mod mails;
mod openid_connect;
mod pages;
mod proxy;
mod request;
mod response;
mod routes;
mod server;
mod service;
mod settings;
mod sign_in_limit;
mod under_way;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run::<settings::Settings>().await
}
