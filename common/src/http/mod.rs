//! What all HTTP servers of the programs share: the accept loop with its limits on connections (`server`), and bodies that are read
//! within limits (`body`).

mod body;
mod server;

pub use body::{BodyFault, BodyReader, BodySource, BodyStream, discard};
pub use server::{ServerLimits, accept, drain, serve};
