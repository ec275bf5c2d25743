//! One database among several: what the others need of it besides its store, and what it has to be.

use std::sync::{Arc, Mutex, PoisonError};

use super::share::{Membership, Share};
use crate::state::database::DatabaseIdentity;
use crate::store::{BoxFuture, Store, StoreError};

/// A share that was given away: a row of `leafd_share`. Each database knows all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// As [`Share::number`].
    pub(crate) share: u64,
    /// Whose it is.
    pub(crate) member: DatabaseIdentity,
    /// Nobody leases from it any more.
    pub(crate) is_closed: bool,
}

/// A database that can have a share.
pub(crate) trait MemberStore: Store {
    /// Its place in a division; none if it has none yet.
    fn membership(&self) -> BoxFuture<'_, Result<Option<Membership>, StoreError>>;

    /// The shares that it knows to be given away.
    fn given(&self) -> BoxFuture<'_, Result<Vec<Given>, StoreError>>;

    /// Makes it a member that has no share yet. `Exists` if it is one already.
    fn join(&self, membership: Membership) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Notes that a share was given away. `Exists` if it was given away before.
    fn give(&self, given: Given) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Gives it a share, unless it has one.
    fn set_share(&self, share: Share) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Notes that a share is closed.
    fn close_given(&self, share: u64) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Closes its own share: from now on, nobody leases from it.
    fn close_own(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// What a database of the list has to be.
#[derive(Debug, Clone)]
pub(crate) struct MemberPlace {
    /// The division that `store.division` names.
    pub(crate) division: DatabaseIdentity,
    /// Its place in the list.
    pub(crate) index: usize,
    /// The shares of all databases in the list.
    pub(crate) shares: Arc<ListedShares>,
}

impl MemberPlace {
    /// The share that a lease may use, by what the database says in the same transaction.
    ///
    /// # Errors
    /// When it is no member of this division, has no share, or has that of another one in the list.
    pub(crate) fn accept(&self, membership: Option<Membership>) -> Result<Share, String> {
        let membership = membership.ok_or_else(|| {
            "the table leafd_division is empty: this database has no share yet; run `leafd \
             division make`"
                .to_owned()
        })?;
        if membership.name != self.division {
            return Err(format!(
                "this database belongs to the division {}, but store.division is {}; nothing is \
                 leased from it. Is its URL in store.urls right?",
                membership.name, self.division
            ));
        }
        if membership.is_closed {
            return Err("its share is closed (`leafd division close`); remove its URL from \
                        store.urls"
                .to_owned());
        }
        let share = membership.share.ok_or_else(|| {
            "it has no share yet: `leafd division make` was interrupted; run it again".to_owned()
        })?;
        self.shares.claim(self.index, share)?;
        Ok(share)
    }
}

/// Which database of the list has which share, as far as they have said. Two of them with one share are
/// one database under two addresses, or a database and its copy.
#[derive(Debug, Default)]
pub(crate) struct ListedShares(Mutex<Vec<(usize, Share)>>);

impl ListedShares {
    fn claim(&self, index: usize, share: Share) -> Result<(), String> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.contains(&(index, share)) {
            return Ok(());
        }
        let other = shares
            .iter()
            .find(|(other, theirs)| *other != index && theirs.number() == share.number());
        if let Some((other, _)) = other {
            return Err(format!(
                "it has {share}, which the URL number {} of store.urls has too: both lead to one \
                 database, or one is a copy of the other; remove one of them",
                other + 1
            ));
        }
        let differs = |(other, theirs): &&(usize, Share)| {
            *other != index && theirs.division != share.division
        };
        if let Some((other, theirs)) = shares.iter().find(differs) {
            return Err(format!(
                "it has {}, but the URL number {} of store.urls has {}; nothing but a hand can have \
                 changed that. Do not lease from either before you know what was given",
                share.division,
                other + 1,
                theirs.division
            ));
        }
        shares.retain(|(known, _)| *known != index);
        shares.push((index, share));
        Ok(())
    }

    /// The share of the database with this place in the list, if it has said it.
    pub(crate) fn of(&self, index: usize) -> Option<Share> {
        let shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter().find(|(known, _)| *known == index).map(|(_, share)| *share)
    }
}

#[cfg(test)]
mod tests {
    use super::super::share::Division;
    use super::*;

    fn membership(name: u128, number: u64) -> Membership {
        let division = Division::new(8, 1000).unwrap();
        Membership {
            name: DatabaseIdentity::of_number(name),
            member: DatabaseIdentity::of_number(100 + u128::from(number)),
            share: Share::new(division, number),
            division,
            is_closed: false,
        }
    }

    /// As the fifth share, with other blocks.
    fn of_blocks(block: u64) -> Membership {
        let division = Division::new(8, block).unwrap();
        Membership { share: Share::new(division, 4), division, ..membership(1, 4) }
    }

    #[test]
    fn only_an_open_member_of_this_division_with_a_share_of_its_own_is_used() {
        let shares = Arc::new(ListedShares::default());
        let place = |index| MemberPlace {
            division: DatabaseIdentity::of_number(1),
            index,
            shares: Arc::clone(&shares),
        };
        assert_eq!(place(0).accept(Some(membership(1, 3))).unwrap().number(), 3);
        assert_eq!(place(1).accept(Some(membership(1, 4))).unwrap().number(), 4);
        for (membership, told) in [
            (None, "leafd division make"),
            (Some(membership(2, 4)), "store.urls right"),
            (Some(Membership { is_closed: true, ..membership(1, 4) }), "closed"),
            (Some(Membership { share: None, ..membership(1, 4) }), "interrupted"),
            (Some(membership(1, 3)), "URL number 1"),
            (Some(of_blocks(2000)), "nothing but a hand"),
        ] {
            let error = place(1).accept(membership).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(place(1).accept(Some(membership(1, 4))).unwrap().number(), 4);
        assert_eq!(shares.of(0).map(Share::number), Some(3));
    }
}
