//! How databases get their shares. A share is given once and never to another database, so none of this
//! can make two databases overlap: neither an interruption at any point, nor two operators at once. What
//! was given stands in every database of the division; adding one needs all that are open.

use super::member::{Given, MemberStore};
use super::share::{Division, Membership, Share};
use crate::ids::BizTag;
use crate::state::database::DatabaseIdentity;
use crate::store::{NewTag, Row, StoreError};

/// Rows per page.
const PAGE: usize = 1000;

/// One database, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberView {
    /// Without a password.
    pub(crate) described: String,
    /// What it says of itself.
    pub(crate) membership: Option<Membership>,
    /// The shares that it knows to be given away.
    pub(crate) given: Vec<Given>,
}

/// What to do for a list of databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DivisionPlan {
    /// No database has a share yet: this becomes a new division.
    New,
    /// These (by their place in the list) get a share of the division that the others have.
    Add { name: DatabaseIdentity, division: Division, newcomers: Vec<usize> },
}

/// Judges a list. `configured` is `store.division`.
///
/// # Errors
/// What is wrong with it, and what to do.
pub(crate) fn plan(
    views: &[MemberView],
    configured: Option<DatabaseIdentity>,
) -> Result<DivisionPlan, String> {
    let mut of: Vec<(usize, Membership)> = Vec::new();
    for (index, view) in views.iter().enumerate() {
        of.extend(view.membership.map(|membership| (index, membership)));
    }
    let Some((_, first)) = of.first() else {
        return match configured {
            None => Ok(DivisionPlan::New),
            Some(name) => Err(format!(
                "store.division is {name}, but no database of store.urls belongs to it. Add the URL \
                 of one that does, or remove store.division to make a new division"
            )),
        };
    };
    let name = configured.unwrap_or(first.name);
    for (index, membership) in &of {
        let described = views.get(*index).map_or("", |view| view.described.as_str());
        if membership.name != name {
            return Err(format!(
                "{described} belongs to the division {}, and not to {name}. Remove it from \
                 store.urls",
                membership.name
            ));
        }
        if membership.is_closed {
            return Err(format!("the share of {described} is closed; remove it from store.urls"));
        }
        let twin =
            of.iter().find(|(other, theirs)| other < index && (theirs.member == membership.member));
        if let Some((other, _)) = twin {
            return Err(format!(
                "{described} says that it is number {} of store.urls: both are one database, or one \
                 is a copy (a replica, a restored dump) of the other. Remove one of them",
                other + 1
            ));
        }
    }
    if of.iter().any(|(_, membership)| membership.division != first.division) {
        return Err(
            "the databases differ in the number of shares or in the block, which nothing but \
                    a hand could have changed; do not use them"
                .to_owned(),
        );
    }
    // Whoever adds a database to another half of the division must see what is given away here.
    let closed = |share: u64| {
        views.iter().flat_map(|view| &view.given).any(|it| it.share == share && it.is_closed)
    };
    for given in views.iter().flat_map(|view| &view.given) {
        let is_listed = of.iter().any(|(_, membership)| membership.member == given.member);
        if !is_listed && !closed(given.share) {
            return Err(format!(
                "share {} belongs to a database that is not in store.urls. List every database of \
                 the division; if that one is gone for good, run `leafd division close {}` first",
                given.share + 1,
                given.share + 1
            ));
        }
    }
    let newcomers = (0..views.len())
        .filter(|index| {
            !of.iter().any(|(known, membership)| known == index && membership.share.is_some())
        })
        .collect();
    Ok(DivisionPlan::Add { name, division: first.division, newcomers })
}

/// The share for a member: the one that was given to it before an interruption, or else the lowest that
/// nobody ever had.
pub(crate) fn free_share(
    given: &[Given],
    member: DatabaseIdentity,
    division: Division,
) -> Option<Share> {
    // What another member was given somewhere too, because two operators were at it, nobody gets.
    let is_contested = |share: u64| given.iter().any(|it| it.share == share && it.member != member);
    let own = given.iter().filter(|it| it.member == member).map(|it| it.share);
    let own = own.filter(|share| !is_contested(*share)).min();
    let free = || (0..division.shares).find(|share| given.iter().all(|it| it.share != *share));
    Share::new(division, own.or_else(free)?)
}

/// Reads what a database says.
pub(crate) async fn view(store: &dyn MemberStore) -> Result<MemberView, StoreError> {
    let membership = store.membership().await?;
    Ok(MemberView { described: store.describe(), membership, given: store.given().await? })
}

/// Gives a share to a database that has joined, in three steps: all databases note it, then the newcomer
/// learns what they know, then the share becomes its own.
///
/// # Errors
/// When a database fails; the same call goes on from there.
pub(crate) async fn give_share(
    stores: &[&dyn MemberStore],
    newcomer: &dyn MemberStore,
    membership: Membership,
) -> Result<Share, StoreError> {
    let Membership { member, division, .. } = membership;
    loop {
        let mut known = Vec::new();
        for store in stores {
            for given in store.given().await? {
                if !known.contains(&given) {
                    known.push(given);
                }
            }
        }
        let Some(share) = free_share(&known, member, division) else {
            return Err(StoreError::BadRow(format!(
                "all {} shares of the division were given away",
                division.shares
            )));
        };
        let given = Given { share: share.number(), member, is_closed: false };
        if !note_given(stores, given).await? {
            // Another operator was faster. What that one took is known in the next round.
            continue;
        }
        for other in known {
            note_given(&[newcomer], other).await?;
            if other.is_closed {
                newcomer.close_given(other.share).await?;
            }
        }
        newcomer.set_share(share).await?;
        return Ok(share);
    }
}

/// Notes in all databases that a share was given away. Returns false if one of them has given it to
/// another database.
async fn note_given(stores: &[&dyn MemberStore], given: Given) -> Result<bool, StoreError> {
    for store in stores {
        match store.give(given).await {
            Ok(()) => {}
            Err(StoreError::Exists) => {
                let known = store.given().await?;
                let same = |it: &Given| it.share == given.share && it.member == given.member;
                if !known.iter().any(same) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Makes the rows that a database lacks and others have. They begin a round above the furthest row, since
/// a row that is missing may have been lost. Returns how many it made.
///
/// # Errors
/// When a database fails; the same call goes on from there.
pub(crate) async fn complete_rows(
    stores: &[&dyn MemberStore],
    division: Division,
) -> Result<u64, StoreError> {
    let mut made = 0;
    for store in stores {
        let mut after = String::new();
        loop {
            let rows = store.page(&after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            last.tag.clone_into(&mut after);
            for row in &rows {
                made += complete_row(stores, row, division).await?;
            }
        }
    }
    Ok(made)
}

async fn complete_row(
    stores: &[&dyn MemberStore],
    row: &Row,
    division: Division,
) -> Result<u64, StoreError> {
    let Ok(tag) = BizTag::new(&row.tag) else { return Ok(0) };
    let tag = &tag;
    let (mut furthest, mut lacking) = (0, Vec::new());
    for store in stores {
        match store.show(tag).await {
            Ok(row) => furthest = row.max_id.natural().max(furthest),
            Err(StoreError::NoSuchTag) => lacking.push(*store),
            Err(error) => return Err(error),
        }
    }
    let first = furthest.saturating_add(division.round()).max(1);
    let step = row.step.natural().max(1);
    let new = NewTag::new(first, step, &row.description);
    let mut made = 0;
    for store in lacking {
        match store.create(tag, new).await {
            Ok(_) => made += 1,
            Err(StoreError::Exists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

/// Closes a share in every database that can be reached. Returns how many noted it.
pub(crate) async fn close_share(
    stores: &[&dyn MemberStore],
    share: u64,
) -> Result<usize, StoreError> {
    let mut failures = Vec::new();
    let mut noted = 0;
    for store in stores {
        let outcome: Result<bool, StoreError> = async {
            let Some(membership) = store.membership().await? else { return Ok(false) };
            if !store.given().await?.iter().any(|it| it.share == share) {
                return Ok(false);
            }
            store.close_given(share).await?;
            if membership.share.is_some_and(|own| own.number() == share) {
                store.close_own().await?;
            }
            Ok(true)
        }
        .await;
        match outcome {
            Ok(true) => noted += 1,
            Ok(false) => {}
            Err(error) => failures.push(error),
        }
    }
    match failures.into_iter().next() {
        Some(error) if noted == 0 => Err(error),
        _ => Ok(noted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: DatabaseIdentity = DatabaseIdentity::of_number(1);

    fn division() -> Division {
        Division::new(4, 1000).unwrap()
    }

    fn member(number: u64) -> DatabaseIdentity {
        DatabaseIdentity::of_number(100 + u128::from(number))
    }

    fn given(share: u64) -> Given {
        Given { share, member: member(share), is_closed: false }
    }

    fn view_of(share: u64, given: &[Given]) -> MemberView {
        MemberView {
            described: format!("database {share}"),
            membership: Some(Membership {
                name: NAME,
                member: member(share),
                share: Share::new(division(), share),
                division: division(),
                is_closed: false,
            }),
            given: given.to_vec(),
        }
    }

    fn newcomer() -> MemberView {
        MemberView { described: "new".into(), membership: None, given: Vec::new() }
    }

    #[test]
    fn a_list_without_shares_is_a_new_division_unless_one_is_configured() {
        assert_eq!(plan(&[newcomer(), newcomer()], None), Ok(DivisionPlan::New));
        let error = plan(&[newcomer()], Some(NAME)).unwrap_err();
        assert!(error.contains("no database of store.urls belongs to it"), "{error}");
    }

    #[test]
    fn a_newcomer_joins_only_if_every_open_database_is_listed() {
        let both = [given(0), given(1)];
        let views = [view_of(0, &both), view_of(1, &both), newcomer()];
        let plan_of = |views: &[MemberView]| plan(views, Some(NAME));
        let Ok(DivisionPlan::Add { newcomers, .. }) = plan_of(&views) else { panic!() };
        assert_eq!(newcomers, [2]);
        let error = plan_of(&[view_of(0, &both), newcomer()]).unwrap_err();
        assert!(error.contains("leafd division close 2"), "{error}");
        let closed = [given(0), Given { is_closed: true, ..given(1) }];
        assert!(plan_of(&[view_of(0, &closed), newcomer()]).is_ok());
    }

    #[test]
    fn other_divisions_copies_and_closed_databases_are_refused() {
        let book = [given(0), given(1)];
        let mut other = view_of(1, &book);
        other.membership =
            other.membership.map(|it| Membership { name: DatabaseIdentity::of_number(2), ..it });
        let mut closed = view_of(1, &book);
        closed.membership = closed.membership.map(|it| Membership { is_closed: true, ..it });
        for (second, told) in [
            (other, "belongs to the division"),
            (closed, "is closed"),
            (view_of(0, &book), "one is a copy"),
        ] {
            let error = plan(&[view_of(0, &book), second], None).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_share_is_given_once_and_to_its_owner_again_after_an_interruption() {
        let number = |given: &[Given], to| free_share(given, to, division()).map(Share::number);
        assert_eq!(number(&[], member(7)), Some(0));
        assert_eq!(number(&[given(0), given(2)], member(7)), Some(1));
        assert_eq!(number(&[given(0), given(1)], member(1)), Some(1));
        // A closed one is nobody's again.
        let closed = Given { is_closed: true, ..given(0) };
        assert_eq!(number(&[closed], member(7)), Some(1));
        let all: Vec<_> = (0..4).map(given).collect();
        assert_eq!(number(&all, member(7)), None);
        // Two databases have noted it for two members.
        let contested = Given { member: member(7), ..given(0) };
        assert_eq!(number(&[given(0), contested], member(7)), Some(1));
        assert_eq!(number(&[given(0), contested], member(0)), Some(1));
    }
}
