//! Removes rows and messages that have expired, in bounded steps, the oldest first.
//!
//! The worker does this by itself, and `connectctl retention` on demand. A [`Rule`] is a table whose rows expire. A step of a
//! rule runs in a transaction of its own: it takes the lock that only one copy at a time can hold, reads the next rows in the order of
//! their age, and removes those that have expired. Each table has an index in that order, which contains only rows that can expire.
//!
//! Unfinished deliveries and dead-lettered ones never expire, whatever their age (D31), nor does an event of the outbox as long as
//! one of its deliveries remains: a replay needs its envelope.

mod dead_letters;
mod deliveries;
mod outbox;
mod position;
mod refusals;
mod rule;
mod timed;

pub use dead_letters::{
    DEAD_LETTERS_OF_SCAN, DeadLetterReport, RetentionError, count_dead_letters, expire_dead_letters,
};
pub use position::Position;
pub use rule::{Rule, Step};

use crate::db::Sql;

/// Maximum number of rows that one step reads, without those that are removed with them.
const STEP_ROWS: i64 = 500;

/// Maximum number of rows among which the oldest expired one is searched, in tables where old rows can be kept.
const SEARCHED_ROWS: i64 = 5_000;

/// The lock that one step holds; an arbitrary number.
const LOCK_KEY: i64 = 0x636f_6e6e_6563_7403;

/// Messages of dead-letter queues, as reports and metrics name them.
pub const DEAD_LETTERS: &str = "dead_letters";

/// All statements, by module, for the tests that prepare and explain each one against the schema.
pub const STATEMENTS: &[&[Sql]] = &[
    dead_letters::STATEMENTS,
    deliveries::STATEMENTS,
    outbox::STATEMENTS,
    refusals::STATEMENTS,
    rule::STATEMENTS,
    timed::STATEMENTS,
];
