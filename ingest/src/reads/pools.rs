//! The connections of records reads. One is reserved for each kind of record: while a table is locked, the reads that wait
//! for it can use up all connections except those that are reserved for reads of other tables.

use crate::store::connections::ConnectionSource;
use crate::store::records::RecordKind;
use common::db::Database;

/// The pools of all reads. They have one name, so their metrics are sums.
#[derive(Debug)]
pub(crate) struct ReadPools {
    /// In the order of [`RecordKind::ALL`].
    sources: [ConnectionSource; RecordKind::ALL.len()],
    pools: Vec<Database>,
}

impl ReadPools {
    /// Divides so many connections; `pool` makes a pool of a number of them. Nothing is reserved where there are fewer
    /// connections than kinds.
    pub(crate) fn new(connections: usize, pool: impl Fn(usize) -> Database) -> Self {
        let reserved = RecordKind::ALL.len();
        if connections < reserved {
            let shared_pool = pool(connections);
            let sources = RecordKind::ALL.map(|_| ConnectionSource::from(shared_pool.clone()));
            return Self { sources, pools: vec![shared_pool] };
        }
        let shared_pool = (connections > reserved).then(|| pool(connections - reserved));
        let sources = RecordKind::ALL.map(|_| ConnectionSource { pool: pool(1), overflow: shared_pool.clone() });
        let pools = sources.iter().map(|source| source.pool.clone()).chain(shared_pool).collect();
        Self { sources, pools }
    }

    /// The connections that reads of `kind` may use.
    pub(crate) fn of(&self, kind: RecordKind) -> ConnectionSource {
        self.sources[kind as usize].clone()
    }

    /// All pools, for their metrics.
    pub(crate) fn all(&self) -> &[Database] {
        &self.pools
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::unused_database;

    /// The sizes of all pools, and how many connections each kind may use.
    fn sizes(connections: usize) -> (Vec<usize>, [usize; 4]) {
        let pools = ReadPools::new(connections, unused_database);
        let sizes = pools.all().iter().map(Database::max_size).collect();
        (sizes, RecordKind::ALL.map(|kind| pools.of(kind).max_size()))
    }

    #[test]
    fn reads_of_one_kind_leave_a_connection_to_each_other_kind() {
        assert_eq!(sizes(8), (vec![1, 1, 1, 1, 4], [5; 4]));
        assert_eq!(sizes(5), (vec![1, 1, 1, 1, 1], [2; 4]));
        assert_eq!(sizes(4), (vec![1, 1, 1, 1], [1; 4]));
    }

    #[test]
    fn fewer_connections_than_kinds_are_shared() {
        assert_eq!(sizes(3), (vec![3], [3; 4]));
        assert_eq!(sizes(1), (vec![1], [1; 4]));
    }
}
