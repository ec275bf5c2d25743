//! How databases get their shares. A new division begins with one database that has all shares. A database
//! gives a part of its own to a newcomer, in one transaction of its own, so that nobody else has to be
//! asked or even known. What is interrupted wastes shares at most.

use super::member::MemberStore;
use super::share::{Division, Membership, Share, ShareRange};
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
}

/// What to do for a list of databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DivisionPlan {
    /// No database has a share yet: this becomes a new division.
    New,
    /// These (by their place in the list) get a share of the division that the others have.
    Add { name: DatabaseIdentity, division: Division, newcomers: Vec<usize> },
}

/// Judges a list. `configured` is `store.division`. A database that has joined and has no share yet
/// vouches for nothing.
///
/// # Errors
/// What is wrong with it, and what to do.
pub(crate) fn plan(
    views: &[MemberView],
    configured: Option<DatabaseIdentity>,
) -> Result<DivisionPlan, String> {
    let mut of: Vec<(&str, Membership, ShareRange)> = Vec::new();
    for view in views {
        let Some(membership) = view.membership else { continue };
        of.extend(membership.range.map(|range| (view.described.as_str(), membership, range)));
    }
    let Some((founder, first, _)) = of.first() else {
        return match configured {
            None => Ok(DivisionPlan::New),
            Some(name) => Err(format!(
                "store.division is {name}, but no database of store.urls has a share of it. Add the \
                 URL of one that does, or remove store.division to make a new division"
            )),
        };
    };
    let name = configured.unwrap_or(first.name);
    for (index, (described, membership, range)) in of.iter().enumerate() {
        if membership.name != name {
            let of_which = if configured.is_some() { "store.division" } else { founder };
            return Err(format!(
                "{described} belongs to the division {}, and not to {name}, the one of {of_which}. \
                 Remove it from store.urls. If no ID was ever leased from it, drop its four tables, \
                 create them again, and repeat this command",
                membership.name
            ));
        }
        if membership.is_closed {
            return Err(format!(
                "the share of {described} is closed; remove it from store.urls, or open it again \
                 (`leafd division open`)"
            ));
        }
        for (other, theirs, their_range) in of.iter().take(index) {
            if theirs.member == membership.member {
                return Err(format!(
                    "{described} says that it is {other}: both are one database, or one is a copy \
                     (a replica, a restored dump) of the other. Remove one of them"
                ));
            }
            if theirs.division != membership.division {
                return Err(format!(
                    "{described} has {}, but {other} has {}; nothing but a hand can have changed \
                     that. Do not use them",
                    membership.division, theirs.division
                ));
            }
            if their_range.meets(*range) {
                return Err(format!(
                    "{described} and {other} have shares in common: one of them was restored from \
                     a backup, or changed by hand. Do not use the older one: IDs may come twice"
                ));
            }
        }
    }
    let has_share = |view: &MemberView| view.membership.is_some_and(|it| it.range.is_some());
    let newcomers = (0..views.len())
        .filter(|index| views.get(*index).is_some_and(|view| !has_share(view)))
        .collect();
    Ok(DivisionPlan::Add { name, division: first.division, newcomers })
}

/// Reads what a database says.
pub(crate) async fn view(store: &dyn MemberStore) -> Result<MemberView, StoreError> {
    Ok(MemberView { described: store.describe(), membership: store.membership().await? })
}

/// Begins a division with one database, which gets all shares.
///
/// # Errors
/// When the database fails, or has a share already.
pub(crate) async fn found(
    store: &dyn MemberStore,
    membership: Membership,
) -> Result<(), StoreError> {
    store.join(membership).await?;
    let all = ShareRange { first: 0, end: membership.division.shares };
    store.set_share(membership.member, all).await
}

/// Gives a newcomer a part of the shares of the member that has most. `membership` is what the newcomer
/// becomes; an earlier attempt for the same division goes on.
///
/// # Errors
/// When a database fails; the same call goes on from there. `BadRow` when no share is left.
pub(crate) async fn add(
    members: &[&dyn MemberStore],
    newcomer: &dyn MemberStore,
    membership: Membership,
) -> Result<Share, StoreError> {
    let Membership { name, division, .. } = membership;
    let member = match newcomer.join(membership).await {
        Ok(()) => membership.member,
        // An earlier attempt goes on, or another operator's.
        Err(StoreError::Exists) => {
            let begun = newcomer.membership().await?;
            let begun = begun.filter(|it| it.name == name && it.range.is_none());
            begun.ok_or(StoreError::Exists)?.member
        }
        Err(error) => return Err(error),
    };
    let mut givers = Vec::with_capacity(members.len());
    for store in members {
        let giver = store.membership().await?.filter(|giver| giver.name == name);
        let range = giver.and_then(|giver| giver.range);
        givers.extend(range.map(|range| (range.end - range.first, *store)));
    }
    givers.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    for (_, giver) in givers {
        let Some(range) = giver.grant(name, member).await? else { continue };
        newcomer.set_share(member, range).await?;
        return Share::new(division, range.first)
            .ok_or_else(|| StoreError::BadRow("the division has no such share".to_owned()));
    }
    Err(StoreError::BadRow(format!(
        "none of the listed databases has a share to give away; the division has {division}. List \
         all databases of the division, or make a new one"
    )))
}

/// What [`complete_rows`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    pub(crate) made: u64,
    /// Tags that a database has no room for, near the highest ID.
    pub(crate) without_room: Vec<String>,
}

/// Makes the rows that a database lacks and others have, and moves those forward that are behind. New ones
/// begin a round above the furthest row, since a row that is missing may have been lost.
///
/// # Errors
/// When a database fails; the same call goes on from there.
pub(crate) async fn complete_rows(
    stores: &[&dyn MemberStore],
    division: Division,
) -> Result<Completed, StoreError> {
    let mut completed = Completed::default();
    for store in stores {
        let mut after = String::new();
        loop {
            let rows = store.page(&after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            last.tag.clone_into(&mut after);
            for row in &rows {
                match complete_row(stores, row, division).await {
                    Ok(made) => completed.made += made,
                    Err(StoreError::BadRow(_)) => {
                        if !completed.without_room.contains(&row.tag) {
                            completed.without_room.push(row.tag.clone());
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(completed)
}

async fn complete_row(
    stores: &[&dyn MemberStore],
    row: &Row,
    division: Division,
) -> Result<u64, StoreError> {
    let Ok(tag) = BizTag::new(&row.tag) else { return Ok(0) };
    let tag = &tag;
    let (mut furthest, mut lacking, mut there) = (0, Vec::new(), Vec::new());
    for store in stores {
        match store.show(tag).await {
            Ok(row) => {
                furthest = row.max_id.natural().max(furthest);
                there.push((row.max_id.natural(), *store));
            }
            Err(StoreError::NoSuchTag) => lacking.push(*store),
            Err(error) => return Err(error),
        }
    }
    let first = furthest.saturating_add(division.round()).max(1);
    let step = row.step.natural().max(1);
    let new = NewTag::new(first, step, &row.description);
    // A database that was closed may have missed that the tag was deleted and created again.
    for (_, store) in there.into_iter().filter(|(here, _)| *here < furthest) {
        store.raise(tag, furthest).await?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: DatabaseIdentity = DatabaseIdentity::of_number(1);

    fn view_of(first: u64, end: u64) -> MemberView {
        MemberView {
            described: format!("database {first}"),
            membership: Some(Membership {
                name: NAME,
                member: DatabaseIdentity::of_number(100 + u128::from(first)),
                range: Some(ShareRange { first, end }),
                division: Division::new(4, 1000).unwrap(),
                is_closed: false,
            }),
        }
    }

    /// The same with another membership.
    fn changed(view: MemberView, change: impl FnOnce(&mut Membership)) -> MemberView {
        let mut membership = view.membership.unwrap();
        change(&mut membership);
        MemberView { membership: Some(membership), ..view }
    }

    fn newcomer() -> MemberView {
        MemberView { described: "new".into(), membership: None }
    }

    #[test]
    fn a_list_without_shares_is_a_new_division_unless_one_is_configured() {
        // One that has joined and has no share yet knows nothing of what was given away.
        let joining = changed(view_of(0, 1), |it| it.range = None);
        for second in [newcomer(), joining] {
            assert_eq!(plan(&[newcomer(), second.clone()], None), Ok(DivisionPlan::New));
            let error = plan(&[newcomer(), second], Some(NAME)).unwrap_err();
            assert!(error.contains("no database of store.urls has a share of it"), "{error}");
        }
    }

    #[test]
    fn whoever_has_no_share_gets_one_also_after_an_interruption() {
        let joining = changed(view_of(2, 3), |it| it.range = None);
        let views = [view_of(0, 2), newcomer(), joining];
        for configured in [None, Some(NAME)] {
            let Ok(DivisionPlan::Add { newcomers, name, .. }) = plan(&views, configured) else {
                panic!()
            };
            assert_eq!((newcomers, name), (vec![1, 2], NAME));
        }
    }

    #[test]
    fn other_divisions_copies_closed_and_restored_databases_are_refused() {
        let other = DatabaseIdentity::of_number(2);
        for (second, told) in [
            (changed(view_of(2, 3), |it| it.name = other), "belongs to the division"),
            (changed(view_of(2, 3), |it| it.is_closed = true), "is closed"),
            (view_of(0, 2), "one is a copy"),
            (view_of(1, 2), "shares in common"),
            (
                changed(view_of(2, 3), |it| it.division = Division::new(8, 1000).unwrap()),
                "nothing but a hand",
            ),
        ] {
            let error = plan(&[view_of(0, 2), second], None).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
