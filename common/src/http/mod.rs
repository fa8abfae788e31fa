//! The HTTP server that all programs share: the accept loop (`server`), the limits on connections (`connections`) and on what
//! their callers may take (`socket`), where requests come from (`origin`), and bodies that are read within limits (`body`).

mod body;
mod body_budget;
mod connection_table;
mod connections;
mod forwarded;
mod origin;
mod server;
mod socket;
mod times;

pub use body::{BodyFault, BodyReader, BodySource, BodyStream, discard};
pub use connections::{ArrivingBody, Connection, ConnectionLimits, ConnectionRefusal, PeerShare};
pub use origin::{RequestOrigin, TrustedProxies};
pub use server::{ServerSettings, serve, with_host};
pub use times::ConnectionTimes;
