//! An agency: its settings, members and usage.

pub(crate) mod limits;
pub(crate) mod members;
pub(crate) mod partners;
pub(crate) mod settings;
pub(crate) mod show;
