//! A list that is cut to its newest items.

/// The newest items of a list, newest last.
#[derive(Debug)]
pub struct Newest<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Whether there are older ones, which were left out.
    pub is_cut: bool,
}
