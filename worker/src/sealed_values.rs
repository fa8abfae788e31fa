//! The gauge of sealed values by master key, which shows how far a rotation of the master key has come.

use crate::store::count_sealed_values;
use common::db::Database;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::SEALED_VALUES;
use common::periodic::ticks;
use common::sealed::{MasterKeyRole, MasterKeys};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Limits the log lines about failures.
static FAILED: LogLimit<1> = LogLimit::new();

/// How often the values are counted. The count reads all keys and subscriptions.
const EVERY: Duration = Duration::from_secs(15);

/// Refreshes the gauge until the program ends. Begins once the master key is verified, which also shows that the schema exists.
pub(crate) async fn observe(database: Database, masters: MasterKeys, verified: CancellationToken) {
    verified.cancelled().await;
    let mut shown = Shown::new(&masters);
    let mut ticks = ticks(EVERY);
    loop {
        ticks.tick().await;
        match count_sealed_values(&database).await {
            Ok(counts) => shown.show(&counts, &masters),
            Err(error) => {
                limited!(FAILED[0], warn, %error, "counting sealed values failed; the gauge keeps its last values");
            }
        }
    }
}

/// The labels that were exported, so that a key without values is exported as 0.
struct Shown(BTreeMap<(String, MasterKeyRole), i64>);

impl Shown {
    fn new(masters: &MasterKeys) -> Self {
        let keys = [(&masters.current, MasterKeyRole::Current)].into_iter();
        let keys = keys.chain(masters.previous.as_ref().map(|previous| (previous, MasterKeyRole::Previous)));
        Self(keys.map(|(key, role)| ((key.id().to_string(), role), 0)).collect())
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float, exact below 2^53")]
    fn show(&mut self, counts: &[(String, i64)], masters: &MasterKeys) {
        self.0.values_mut().for_each(|count| *count = 0);
        for (id, count) in counts {
            let role = masters.role_of(id);
            self.0.insert((id.clone(), role), *count);
        }
        for ((id, role), count) in &self.0 {
            metrics::gauge!(SEALED_VALUES, "key_id" => id.clone(), "key" => role.as_str()).set(*count as f64);
        }
    }
}
