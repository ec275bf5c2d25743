//! One database among several: what the others need of it besides its store, and what it has to be.

use std::sync::{Arc, Mutex, PoisonError};

use super::share::{Membership, Share, ShareRange};
use crate::ids::BizTag;
use crate::state::database::DatabaseIdentity;
use crate::store::{BoxFuture, Store, StoreError};

/// A database that can have a share.
pub(crate) trait MemberStore: Store {
    /// Its place in a division; none if it has none yet.
    fn membership(&self) -> BoxFuture<'_, Result<Option<Membership>, StoreError>>;

    /// Makes it a member that has no share yet, in place of an attempt for another division. `Exists` if it
    /// has one, or has joined this division.
    fn join(&self, membership: Membership) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Gives a part of its own shares to another member, in one transaction, which also notes to whom. The
    /// same member gets the same part again. `None` if nothing is left, `Down` if it is not of this division.
    fn grant(
        &self,
        of_division: DatabaseIdentity,
        to: DatabaseIdentity,
    ) -> BoxFuture<'_, Result<Option<ShareRange>, StoreError>>;

    /// Gives it shares. `Exists` if it has some, or if another `leafd division` has replaced `member`.
    fn set_share(
        &self,
        member: DatabaseIdentity,
        range: ShareRange,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Closes it for leases, or opens it again.
    fn set_closed(
        &self,
        member: DatabaseIdentity,
        closed: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Where a deleted tag of this name ended.
    fn tombstone<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Option<u64>, StoreError>>;

    /// Writes that a deleted tag of this name, which has no row here, ended there or further.
    fn bury<'a>(&'a self, tag: &'a BizTag, at: u64) -> BoxFuture<'a, Result<(), StoreError>>;
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
            return Err("its share is closed (`leafd division close`, which `open` takes \
                        back); remove its URL from store.urls"
                .to_owned());
        }
        let share = membership.share().ok_or_else(|| {
            "it has no share yet: `leafd division make` was interrupted; run it again".to_owned()
        })?;
        self.shares.claim(self.index, share)?;
        Ok(share)
    }
}

/// Which database of the list has which share, as far as they have said. Two of them with one share are
/// one database under two addresses, or a database and its copy: the first one keeps it, until its address
/// leads to another share.
#[derive(Debug, Default)]
pub(crate) struct ListedShares(Mutex<Vec<Said>>);

/// What a URL's database said last.
#[derive(Debug, Clone, Copy)]
struct Said {
    index: usize,
    share: Share,
    /// It may be used.
    holds: bool,
}

impl ListedShares {
    fn claim(&self, index: usize, share: Share) -> Result<(), String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || all.iter().filter(|said| said.index != index && said.holds);
        let twin = others().find(|said| said.share.number() == share.number());
        let differs = others().find(|said| said.share.division != share.division);
        let outcome = if let Some(twin) = twin {
            Err(format!(
                "it has {share}, which the URL number {} of store.urls has too: both lead to one \
                 database, or one is a copy of the other; remove one of them. If that one leads \
                 nowhere any more, restart leafd",
                twin.index + 1
            ))
        } else if let Some(differs) = differs {
            Err(format!(
                "it has {}, but the URL number {} of store.urls has {}; nothing but a hand can have \
                 changed that. Do not lease from either before you know what was given",
                share.division,
                differs.index + 1,
                differs.share.division
            ))
        } else {
            Ok(())
        };
        all.retain(|said| said.index != index);
        all.push(Said { index, share, holds: outcome.is_ok() });
        outcome
    }

    /// The share of the database with this place in the list, if it has said it and may be used.
    pub(crate) fn of(&self, index: usize) -> Option<Share> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|said| said.index == index && said.holds).map(|said| said.share)
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
            range: Some(ShareRange { first: number, end: number + 1 }),
            division,
            is_closed: false,
        }
    }

    /// As the fifth share, with other blocks.
    fn of_blocks(block: u64) -> Membership {
        let division = Division::new(8, block).unwrap();
        Membership { division, ..membership(1, 4) }
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
            (Some(Membership { range: None, ..membership(1, 4) }), "interrupted"),
            (Some(membership(1, 3)), "URL number 1"),
            (Some(of_blocks(2000)), "nothing but a hand"),
        ] {
            let error = place(1).accept(membership).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(place(1).accept(Some(membership(1, 4))).unwrap().number(), 4);
        assert_eq!(shares.of(0).map(Share::number), Some(3));
    }

    #[test]
    fn two_addresses_that_change_places_are_used_again_and_a_copy_never_is() {
        let division = Division::new(8, 1000).unwrap();
        let [one, other] = [0, 1].map(|number| Share::new(division, number).unwrap());
        let shares = ListedShares::default();
        shares.claim(0, one).unwrap();
        shares.claim(1, other).unwrap();
        // The first one leads to the second's database before the second leads to the first's.
        assert!(shares.claim(0, other).is_err());
        assert_eq!(shares.of(0), None);
        shares.claim(1, one).unwrap();
        shares.claim(0, other).unwrap();
        assert_eq!((shares.of(0), shares.of(1)), (Some(other), Some(one)));
        for _ in 0..3 {
            assert!(shares.claim(2, one).is_err());
            shares.claim(1, one).unwrap();
        }
    }
}
