//! What a user interface learns while an operation runs.

/// A part of a long operation whose progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressStep {
    /// Migrations are applied; each is an item.
    ApplyMigrations,
    /// Dead letters are requeued.
    RequeueDeadLetters,
    /// Dead letters are dropped.
    DropDeadLetters,
    /// Dead letters are read one by one, to remove some of them.
    CheckDeadLetters,
    /// Deliveries are replayed; each is an item.
    ReplayDeliveries,
    /// Sealed values are sealed again under the current master key.
    RewrapSecrets,
    /// Expired rows are removed.
    RemoveExpired,
}

/// Learns how an operation proceeds. Every method may be left out.
pub trait Observer {
    /// A step begins; `total` is the number of its items, as far as it is known.
    fn begin(&mut self, _step: ProgressStep, _total: u64) {}

    /// The next item of the step begins. Only for steps with few items, which take long and have names.
    fn begin_item(&mut self, _name: &str) {}

    /// What the current item is about.
    fn detail(&mut self, _text: &str) {}

    /// So many items of the step are finished.
    fn reached(&mut self, _done: u64) {}

    /// The step has ended after so many items, which may be less than the total.
    fn end(&mut self, _done: u64) {}
}

/// For callers that show no progress.
#[derive(Clone, Copy, Debug)]
pub struct SilentObserver;

impl Observer for SilentObserver {}
