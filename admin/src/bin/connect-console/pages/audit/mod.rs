//! Who did what, when: in an agency, and for operators everywhere.

pub(crate) mod export;
mod filter;
pub(crate) mod list;
