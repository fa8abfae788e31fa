//! Arguments of `connectctl secrets`.

use clap::Subcommand;

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Command {
    /// Seal all stored secrets under the current master key, after it was replaced; can be interrupted and run again
    #[command(after_help = ROTATE_HELP)]
    Rotate,
    /// Count the sealed values by master key
    #[command(after_help = "Example:\n  connectctl secrets list")]
    List,
}

const ROTATE_HELP: &str = "\
Needs the new key in CONNECT_MASTER_KEY and the old one in CONNECT_MASTER_KEY_PREVIOUS. Run it when all programs
have both keys; they keep serving requests. Once it reports no remaining values, the old key can be removed from
the programs, as soon as no queue holds a message that was signed with it.

Example:
  connectctl secrets rotate";
