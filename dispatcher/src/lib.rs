//! The dispatcher. It starts, connects and serves its operator's port; relaying and delivering come with the outbound
//! webhooks. It never writes the CRM's tables.

pub mod send;
pub mod service;
pub mod settings;
