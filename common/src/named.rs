//! Enums whose variants have names in JSON, in the database, in metrics or in commands.

/// Declares an enum with the name of each variant beside it: `ALL`, each variant once in the order of the declaration,
/// `as_str`,
/// `parse` and `Display`. Names are written out instead of derived from variants: stored names must not change when a variant
/// is renamed.
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $text:expr,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $name { $($(#[$of_variant])* $variant,)+ }

        impl $name {
            /// Each of them once, in the order of the declaration.
            $visibility const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Its name.
            $visibility const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The one with that name.
            $visibility fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
