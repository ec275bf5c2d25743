//! What a session has seen of etcd's data. A revision that falls, or another cluster, means that the data
//! was lost or restored: what was seen before says nothing about it.

use super::client::Trouble;
use super::wire::Header;

#[derive(Debug, Default)]
pub(super) struct Witness {
    latest: Option<Header>,
}

impl Witness {
    /// Takes the header of an answer to a request that was sent after the answer to the one before.
    ///
    /// # Errors
    /// When the data is older than before, or another cluster's.
    pub(super) fn see(&mut self, header: Header) -> Result<(), Trouble> {
        if header.cluster_id.0 == 0 || header.revision.0 == 0 {
            return Err(Trouble::Failed(
                "its answer does not say from which cluster it is".to_owned(),
            ));
        }
        let before = self.latest.replace(header);
        let Some(before) = before else { return Ok(()) };
        if before.cluster_id != header.cluster_id {
            let (was, is) = (before.cluster_id.0, header.cluster_id.0);
            return Err(Trouble::Over(format!(
                "another cluster answers: {is:x} instead of {was:x}"
            )));
        }
        if header.revision < before.revision {
            let (was, is) = (before.revision.0, header.revision.0);
            let why = format!("its data went back from revision {was} to {is}: lost or restored");
            return Err(Trouble::Over(why));
        }
        Ok(())
    }
}

/// What tells one leader of one cluster from every other.
pub(super) fn epoch(header: Header) -> i64 {
    let cluster = crc32fast::hash(&header.cluster_id.0.to_be_bytes());
    (i64::from(cluster) << 31) ^ (header.raft_term.0 & i64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::wire::Int;
    use super::*;

    fn header(cluster: i64, revision: i64, term: i64) -> Header {
        let (cluster_id, revision, raft_term) = (Int(cluster), Int(revision), Int(term));
        Header { cluster_id, member_id: Int(1), revision, raft_term }
    }

    #[test]
    fn data_that_went_back_and_another_cluster_end_the_session() {
        let mut witness = Witness::default();
        for revision in [5, 5, 9] {
            assert_eq!(witness.see(header(7, revision, 2)), Ok(()));
        }
        let Err(Trouble::Over(why)) = witness.see(header(7, 8, 2)) else { panic!("not noticed") };
        assert!(why.contains("from revision 9 to 8"), "{why}");
        let mut witness = Witness::default();
        witness.see(header(7, 5, 2)).unwrap();
        assert!(matches!(witness.see(header(8, 50, 2)), Err(Trouble::Over(_))));
        assert!(matches!(witness.see(Header::default()), Err(Trouble::Failed(_))));
    }

    #[test]
    fn each_election_and_each_cluster_is_another_epoch() {
        let epochs = [(7, 2), (7, 3), (8, 2), (-7, 2)].map(|(id, term)| epoch(header(id, 5, term)));
        for (at, epoch) in epochs.iter().enumerate() {
            assert!(!epochs[..at].contains(epoch), "{epochs:?}");
        }
        assert_eq!(epoch(header(7, 9, 2)), epochs[0]);
    }
}
