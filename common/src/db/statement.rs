//! The texts of statements, which are all registered for the tests, and the columns that set-based statements take.

/// The text of a registered statement, which names the statement in its first line. Only [`statements!`](crate::statements)
/// makes one, so that a module's list has every statement that the module can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sql(&'static str);

impl Sql {
    /// For [`statements!`](crate::statements) only.
    #[doc(hidden)]
    pub const fn registered(text: &'static str) -> Self {
        Self(text)
    }

    /// The text for the driver, with the name in its first line.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Declares the statements of a module as constants of type [`Sql`](crate::db::Sql), and `STATEMENTS`, the list of them. The
/// `store` that the module belongs to has all lists in its own `STATEMENTS`, which tests prepare and explain.
#[macro_export]
macro_rules! statements {
    ($($(#[$attribute:meta])* $visibility:vis const $name:ident = $text:expr;)+) => {
        $(
            $(#[$attribute])*
            $visibility const $name: $crate::db::Sql = $crate::db::Sql::registered($text);
        )+

        /// All statements of this module.
        pub(super) const STATEMENTS: &[$crate::db::Sql] = &[$($name),+];
    };
}

/// One value of each row: an array that a set-based statement takes as a parameter.
pub fn column<'r, R, V>(rows: &'r [R], value: impl FnMut(&'r R) -> V) -> Vec<V> {
    rows.iter().map(value).collect()
}
