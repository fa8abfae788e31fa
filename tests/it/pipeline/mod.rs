//! The transaction pipeline: what a unit costs, whatever the tables hold.

mod faults;
mod plans;
mod round_trips;
mod workload;
