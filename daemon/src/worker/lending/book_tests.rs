use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;

const T: u64 = 1_700_000_000_000;
const FENCE: u64 = 30_000;

fn rules() -> BookRules {
    BookRules { fence_after_ms: FENCE, reclaim_after_ms: 2 * FENCE, max_loans: 4, max_per_user: 3 }
}

fn at(ms: u64) -> LendMoment {
    LendMoment { boot_ms: ms, clock_ms: T + ms }
}

fn cgroup(number: u64) -> Cgroup {
    Cgroup::of_test(number)
}

fn request(borrower: &str, connection: u64) -> BorrowRequest {
    BorrowRequest {
        connection,
        account: 1000,
        borrower: borrower.to_owned(),
        cgroup: None,
        held: None,
    }
}

/// A book and what began, by name.
struct Desk {
    book: LoanBook,
    begun: Vec<String>,
}

impl Desk {
    fn new() -> Self {
        Self { book: LoanBook::new(rules()), begun: Vec::new() }
    }

    fn borrow(&mut self, now: LendMoment, request: BorrowRequest) -> BorrowAnswer {
        let begun = RefCell::new(&mut self.begun);
        let begin = |resumed: Option<&ResumedLoan>| {
            let mut begun = begun.borrow_mut();
            let name = resumed.map_or(format!("c{}", begun.len()), |it| it.claim.clone());
            begun.push(name.clone());
            Ok::<_, Infallible>(name)
        };
        self.book.borrow(now, request, begin).unwrap()
    }

    fn begins(&mut self, claim: &str, worker: u64, now: LendMoment) {
        self.begins_unconfirmed(claim, worker, now);
        let (limit_ms, reported_boot_ms) = (now.clock_ms + FENCE, now.boot_ms);
        self.book.reported(claim, ClaimReport::Reported { limit_ms, reported_boot_ms });
    }

    /// On the borrower's word alone, in an outage.
    fn begins_unconfirmed(&mut self, claim: &str, worker: u64, now: LendMoment) {
        let (limit_ms, reported_boot_ms) = (now.clock_ms + FENCE, now.boot_ms);
        let begins = ClaimReport::Begins { worker, start_ms: 0, limit_ms, reported_boot_ms };
        self.book.reported(claim, begins);
    }

    fn give_back(&mut self, now: LendMoment, borrower: &str, ceiling_ms: u64) -> Option<LoanTerms> {
        self.book.give_back(now, (1000, borrower), ceiling_ms)
    }
}

fn lent(answer: BorrowAnswer) -> LoanTerms {
    match answer {
        BorrowAnswer::Lent(terms) => terms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_borrower_waits_for_its_claim_and_keeps_what_it_got() {
    let mut desk = Desk::new();
    assert!(matches!(desk.borrow(at(0), request("a", 1)), BorrowAnswer::NotYet(_)));
    assert!(matches!(desk.borrow(at(100), request("a", 1)), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c0"], "one claim, however often it asks");
    desk.begins("c0", 7, at(200));
    let first = lent(desk.borrow(at(300), request("a", 1)));
    assert_eq!((first.worker, first.left_ms, first.is_new), (7, FENCE - 100, true));
    let again = lent(desk.borrow(at(400), request("a", 2)));
    assert_eq!((again.worker, again.is_new), (7, false));
    assert!(matches!(desk.borrow(at(500), request("b", 3)), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c0", "c1"], "another borrower needs another claim");
}

#[test]
fn a_loan_ends_at_the_fence_and_at_its_limit_in_time() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    assert_eq!(lent(desk.borrow(at(FENCE - 1), request("a", 1))).left_ms, 1);
    assert!(matches!(desk.borrow(at(FENCE), request("a", 1)), BorrowAnswer::NotYet(_)));
    let ahead = LendMoment { boot_ms: 1, clock_ms: T + FENCE };
    assert!(matches!(desk.borrow(ahead, request("a", 1)), BorrowAnswer::NotYet(_)));
    let report = ClaimReport::Reported { limit_ms: T + 2 * FENCE, reported_boot_ms: FENCE };
    desk.book.reported("c0", report);
    assert_eq!(lent(desk.borrow(at(FENCE), request("a", 1))).left_ms, FENCE);
}

#[test]
fn a_returned_worker_id_goes_to_the_next_borrower_from_where_the_last_one_ended() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    let returned = desk.give_back(at(20), "a", T + 5000).unwrap();
    assert_eq!((returned.worker, returned.left_ms), (7, 0));
    assert_eq!(desk.give_back(at(20), "a", T), None, "nobody returns it twice");
    let next = lent(desk.borrow(at(30), request("b", 2)));
    assert_eq!((next.worker, next.start_ms, next.is_new), (7, T + 5000, true));
}

#[test]
fn nobody_can_make_the_next_borrower_wait_for_long() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.give_back(at(20), "a", u64::MAX);
    assert_eq!(lent(desk.borrow(at(30), request("b", 2))).start_ms, T + 20 + MOST_AHEAD_MS);
    // Nor by doing it again and again.
    for ms in 40..60 {
        desk.give_back(at(ms), "b", u64::MAX);
        lent(desk.borrow(at(ms), request("b", 2)));
    }
    assert_eq!(lent(desk.borrow(at(60), request("b", 2))).start_ms, T + 59 + MOST_AHEAD_MS);
}

#[test]
fn each_answer_before_the_start_says_the_same_start() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.give_back(at(20), "a", T + 9000);
    for ms in [30, 3030, 6030] {
        // The first of them may have been lost.
        let asked = BorrowRequest { held: (ms > 30).then(|| held(7, "c0")), ..request("b", 2) };
        assert_eq!(lent(desk.borrow(at(ms), asked)).start_ms, T + 9000);
    }
}

#[test]
fn a_return_counts_that_comes_before_a_leafd_that_restarted_has_its_claim_back() {
    let mut desk = Desk::new();
    let resumed = BorrowRequest { held: Some(held(7, "c9")), ..request("a", 1) };
    assert!(matches!(desk.borrow(at(0), resumed), BorrowAnswer::NotYet(_)));
    desk.give_back(at(10), "a", T + 5000).unwrap();
    desk.begins("c9", 7, at(20));
    let next = lent(desk.borrow(at(RESERVED_MS), request("b", 2)));
    assert_eq!((next.worker, next.start_ms), (7, T + 5000));
}

#[test]
fn after_a_restart_a_return_frees_nothing_before_others_can_have_told_of_themselves() {
    // The first borrower returned it, and the answer was lost; the second one has it now; leafd restarts.
    let mut desk = Desk::new();
    let stale = BorrowRequest { held: Some(held(7, "c9")), ..request("a", 1) };
    desk.borrow(at(0), stale);
    desk.begins("c9", 7, at(0));
    desk.give_back(at(10), "a", 0).unwrap();
    assert!(matches!(desk.borrow(at(20), request("d", 3)), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c9", "c1"], "a third one gets another");
    let second = BorrowRequest { held: Some(held(7, "c9")), ..request("b", 2) };
    assert_eq!(lent(desk.borrow(at(3000), second)).worker, 7);

    // A stop does not give it to other hosts either. A loan that was resumed long before is returned as any other.
    let mut desk = Desk::new();
    let stale = BorrowRequest { held: Some(held(7, "c9")), ..request("a", 1) };
    desk.borrow(at(0), stale.clone());
    desk.begins("c9", 7, at(0));
    desk.give_back(at(10), "a", 0).unwrap();
    desk.book.stop(at(20));
    assert!(!desk.book.gives_back("c9"));

    let mut desk = Desk::new();
    desk.borrow(at(0), stale);
    desk.begins("c9", 7, at(0));
    desk.give_back(at(RESERVED_MS), "a", 0).unwrap();
    assert_eq!(lent(desk.borrow(at(RESERVED_MS), request("d", 3))).worker, 7);
}

#[test]
fn what_a_borrower_says_counts_although_the_clock_was_set_back_while_leafd_restarted() {
    let mut desk = Desk::new();
    let resumed = BorrowRequest { held: Some(held(7, "c9")), ..request("a", 1) };
    desk.borrow(at(0), resumed);
    let (limit_ms, start_ms) = (T + 2 * FENCE, T + 30_000);
    let begins = ClaimReport::Begins { worker: 7, start_ms, limit_ms, reported_boot_ms: 0 };
    desk.book.reported("c9", begins);
    desk.book.reported("c9", ClaimReport::Reported { limit_ms, reported_boot_ms: 0 });
    desk.give_back(at(10), "a", T + 32_000).unwrap();
    desk.begins("c9", 7, at(25_000));
    assert_eq!(lent(desk.borrow(at(25_000), request("b", 2))).start_ms, T + 32_000);
}

#[test]
fn loans_that_one_user_makes_up_take_no_room_from_the_others() {
    let mut desk = Desk::new();
    for number in 0..6 {
        let made_up = Some(held(9, &format!("x{number}")));
        desk.borrow(at(0), BorrowRequest { held: made_up, ..request(&format!("g{number}"), 1) });
    }
    assert_eq!(desk.begun.len(), 6, "twice its share");
    let other = BorrowRequest { account: 2000, ..request("b", 2) };
    assert!(matches!(desk.borrow(at(0), other), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun.len(), 7);
}

#[test]
fn a_stop_gives_nothing_back_that_was_given_up() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.book.disconnected(at(20), 1);
    assert_eq!(desk.book.tick(at(20 + RECONNECT_MS), |_| true), ["c0"]);
    desk.book.stop(at(20 + RECONNECT_MS));
    assert!(!desk.book.gives_back("c0"));
}

#[test]
fn a_worker_id_that_may_be_used_much_later_is_lent_only_if_there_can_be_no_other() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    // The clock is wrong by an hour for a while.
    let ahead = LendMoment { boot_ms: 10, clock_ms: T + 10 };
    lent(desk.borrow(ahead, request("a", 1)));
    desk.book.tick(LendMoment { boot_ms: 11, clock_ms: T + 3_600_000 }, |_| false);
    desk.give_back(at(20), "a", 0);
    assert!(matches!(desk.borrow(at(30), request("b", 2)), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c0", "c1"]);
    for borrower in ["c", "d"] {
        desk.borrow(at(30), request(borrower, 2));
    }
    assert_eq!(desk.begun, ["c0", "c1", "c2"], "the limit of the user");
}

#[test]
fn nobody_returns_or_renews_another_users_loan_even_with_its_names() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    assert_eq!(desk.book.give_back(at(20), (2000, "a"), 0), None);
    let thief = BorrowRequest { account: 2000, held: Some(held(7, "c0")), ..request("a", 2) };
    assert_eq!(desk.borrow(at(20), thief), BorrowAnswer::Lost(7));
    assert_eq!(desk.book.disconnected(at(30), 2), [0; 0]);
    desk.give_back(at(40), "a", 0);
    let other = BorrowRequest { account: 2000, ..request("b", 3) };
    assert!(matches!(desk.borrow(at(50), other), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c0", "c1"], "another user gets a claim of its own");
}

#[test]
fn what_a_borrower_alone_vouches_for_goes_to_nobody_else() {
    let mut desk = Desk::new();
    let made_up = BorrowRequest { held: Some(held(7, "c9")), ..request("a", 1) };
    desk.borrow(at(0), made_up.clone());
    desk.begins_unconfirmed("c9", 7, at(0));
    assert_eq!(lent(desk.borrow(at(10), made_up)).worker, 7);
    desk.give_back(at(20), "a", 0);
    assert!(matches!(desk.borrow(at(30), request("b", 2)), BorrowAnswer::NotYet(_)));
    assert_eq!(desk.begun, ["c9", "c1"]);
}

#[test]
fn a_borrower_hears_at_once_that_its_worker_id_is_anothers() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.book.reported("c0", ClaimReport::Lost);
    desk.book.reported("c0", ClaimReport::Stops("all are taken".into()));
    assert_eq!(desk.borrow(at(20), request("a", 1)), BorrowAnswer::Lost(7));
}

#[test]
fn numbers_that_nobody_returned_count_for_their_user_until_they_are_reclaimed() {
    let mut desk = Desk::new();
    for (borrower, claim, worker) in [("a", "c0", 7), ("b", "c1", 8), ("c", "c2", 9)] {
        desk.borrow(at(0), request(borrower, 1));
        desk.begins(claim, worker, at(0));
        lent(desk.borrow(at(10), request(borrower, 1)));
    }
    desk.book.disconnected(at(20), 1);
    for ending in desk.book.tick(at(20 + RECONNECT_MS), |_| true) {
        desk.book.ended(&ending);
    }
    let after = at(30 + RECONNECT_MS);
    assert!(matches!(desk.borrow(after, request("d", 2)), BorrowAnswer::TooMany(..)));
    let reclaimed = at(20 + RECONNECT_MS + 2 * FENCE);
    desk.book.tick(reclaimed, |_| true);
    assert!(matches!(desk.borrow(reclaimed, request("d", 2)), BorrowAnswer::NotYet(_)));
}

#[test]
fn a_cgroup_that_has_no_process_while_its_borrower_is_there_says_nothing() {
    let mut desk = Desk::new();
    let with_cgroup = || BorrowRequest { cgroup: Some(cgroup(5)), ..request("a", 1) };
    desk.borrow(at(0), with_cgroup());
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), with_cgroup()));
    // Its processes have left the cgroup, so leafd does not find one in it any more.
    lent(desk.borrow(at(20), request("a", 1)));
    desk.book.disconnected(at(30), 1);
    desk.book.tick(at(40), |_| true);
    assert!(matches!(desk.borrow(at(50), request("b", 2)), BorrowAnswer::NotYet(_)));
}

#[test]
fn without_a_word_a_worker_id_stays_with_its_borrower_until_its_cgroup_is_empty() {
    let mut desk = Desk::new();
    let with_cgroup = || BorrowRequest { cgroup: Some(cgroup(5)), ..request("a", 1) };
    desk.borrow(at(0), with_cgroup());
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), with_cgroup()));
    assert_eq!(desk.book.disconnected(at(20), 1), [7]);
    for ms in [1000, 100_000, 9_000_000] {
        assert_eq!(desk.book.tick(at(ms), |_| false), [""; 0]);
    }
    desk.borrow(at(9_000_000), request("b", 2));
    assert_eq!(desk.begun, ["c0", "c1"], "nobody else gets it");
    assert_eq!(desk.book.tick(at(9_001_000), |_| true), [""; 0]);
    desk.begins("c0", 7, at(9_001_000));
    let next = lent(desk.borrow(at(9_002_000), request("c", 3)));
    assert_eq!((next.worker, next.start_ms), (7, T + 9_001_000 + AHEAD_MS));
}

#[test]
fn without_a_cgroup_the_registry_alone_lends_it_again() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.book.disconnected(at(20), 1);
    assert_eq!(desk.book.tick(at(20 + RECONNECT_MS - 1), |_| true), [""; 0]);
    let ending = desk.book.tick(at(20 + RECONNECT_MS), |_| true);
    assert_eq!(ending, ["c0"]);
    assert!(!desk.book.gives_back("c0"), "a process may still use it");
    let back = BorrowRequest { held: Some(held(7, "c0")), ..request("a", 2) };
    assert!(matches!(desk.borrow(at(90_000), back.clone()), BorrowAnswer::NotYet(_)));
    // Once leafd has let go of it, the borrower goes on if the registry still has its claim.
    desk.book.ended("c0");
    assert!(matches!(desk.borrow(at(91_000), back.clone()), BorrowAnswer::NotYet(_)));
    desk.begins("c0", 7, at(92_000));
    assert_eq!(lent(desk.borrow(at(93_000), back)).worker, 7);
}

fn held(worker: u64, claim: &str) -> ResumedLoan {
    ResumedLoan { worker, claim: claim.to_owned(), limit_ms: T + FENCE, left_ms: FENCE }
}

#[test]
fn a_borrower_that_connects_again_keeps_its_worker_id_with_this_leafd_and_with_the_next() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.book.disconnected(at(20), 1);
    let back = || BorrowRequest { held: Some(held(7, "c0")), ..request("a", 2) };
    assert!(!lent(desk.borrow(at(30), back())).is_new);
    assert_eq!(desk.book.disconnected(at(40), 1), [0; 0], "the first connection holds nothing");

    let mut next = Desk::new();
    assert!(matches!(next.borrow(at(0), back()), BorrowAnswer::NotYet(_)));
    assert_eq!(next.begun, ["c0"], "the claim goes on under its name");
    next.begins("c0", 7, at(10));
    assert!(!lent(next.borrow(at(20), back())).is_new);
}

#[test]
fn a_borrower_whose_claim_has_another_worker_id_has_lost_its_own() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.book.reported("c0", ClaimReport::Stops("taken".into()));
    assert_eq!(desk.borrow(at(20), request("a", 1)), BorrowAnswer::NotYet("taken".into()));
    desk.begins("c0", 8, at(30));
    assert_eq!(desk.borrow(at(40), request("a", 1)), BorrowAnswer::Lost(7));
    assert_eq!(lent(desk.borrow(at(50), request("b", 2))).worker, 8);
}

#[test]
fn the_name_of_a_claim_helps_nobody_else() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    let thief = BorrowRequest { held: Some(held(7, "c0")), ..request("b", 2) };
    assert_eq!(desk.borrow(at(20), thief), BorrowAnswer::Lost(7));
    assert_eq!(lent(desk.borrow(at(30), request("a", 1))).worker, 7);
}

#[test]
fn limits_hold_per_user_and_in_all_and_an_own_loan_is_not_refused() {
    let mut desk = Desk::new();
    for (borrower, account) in [("a", 1), ("b", 1), ("c", 1)] {
        desk.borrow(at(0), BorrowRequest { account, ..request(borrower, 1) });
    }
    let refused = |answer| matches!(answer, BorrowAnswer::TooMany(..));
    assert_eq!(desk.begun.len(), 3);
    assert!(refused(desk.borrow(at(0), BorrowRequest { account: 1, ..request("d", 1) })));
    assert!(!refused(desk.borrow(at(0), BorrowRequest { account: 2, ..request("e", 1) })));
    assert!(refused(desk.borrow(at(0), BorrowRequest { account: 3, ..request("f", 1) })));
    assert!(!refused(desk.borrow(at(0), BorrowRequest { account: 1, ..request("a", 1) })));
    for number in 0..7 {
        let resumed = Some(held(9, &format!("x{number}")));
        let borrower = format!("g{number}");
        let asked = BorrowRequest { account: 3, held: resumed, ..request(&borrower, 1) };
        // What goes on after a restart has room of its own, up to a limit as well.
        assert_eq!(refused(desk.borrow(at(0), asked)), number == 6);
    }
}

#[test]
fn what_nobody_uses_is_given_back_after_a_while_but_not_in_an_outage() {
    let mut desk = Desk::new();
    desk.borrow(at(0), request("a", 1));
    desk.begins("c0", 7, at(0));
    lent(desk.borrow(at(10), request("a", 1)));
    desk.give_back(at(20), "a", 0);
    desk.book.reported("c0", ClaimReport::Reached(false));
    assert_eq!(desk.book.tick(at(20 + 2 * KEEP_MS), |_| true), [""; 0]);
    desk.book.reported("c0", ClaimReport::Reached(true));
    assert_eq!(desk.book.tick(at(20 + 2 * KEEP_MS), |_| true).len(), 1);
    assert!(desk.book.gives_back("c0"));
    desk.book.ended("c0");
    desk.borrow(at(200_000), request("b", 2));
    assert_eq!(desk.begun.len(), 2);
}

#[test]
fn a_stop_gives_back_what_nobody_uses_and_leaves_borrowers_theirs() {
    let mut desk = Desk::new();
    for (borrower, claim, worker) in [("a", "c0", 7), ("b", "c1", 8)] {
        desk.borrow(at(0), request(borrower, 1));
        desk.begins(claim, worker, at(0));
        lent(desk.borrow(at(10), request(borrower, 1)));
    }
    desk.give_back(at(20), "a", 0);
    desk.book.stop(at(20));
    assert_eq!([desk.book.gives_back("c0"), desk.book.gives_back("c1")], [true, false]);
}

/// A borrower with its processes, which use each reading of the clock.
#[derive(Default)]
struct Process {
    connection: u64,
    is_connected: bool,
    runs: bool,
    /// While the command has not begun, it waits for this.
    start_ms: u64,
    has_begun: bool,
    known: Option<(u64, String)>,
    has_cgroup: bool,
    /// Which loan of all.
    loan: u64,
}

#[test]
fn whatever_happens_no_two_processes_use_one_worker_id_with_one_time() {
    let mut lent_in_all = 0u64;
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rules = BookRules { max_loans: 200, max_per_user: 200, ..rules() };
        let mut desk = Desk { book: LoanBook::new(rules), begun: Vec::new() };
        let (mut boot, mut clock, mut connection) = (0u64, T, 0u64);
        let (mut furthest, mut floor) = (T, 0);
        // The worker ID of each claim; the registry gives no two claims one.
        let mut workers: BTreeMap<String, u64> = BTreeMap::new();
        let mut next_worker = 0;
        let mut processes: BTreeMap<String, Process> = BTreeMap::new();
        // The times that were used, by worker ID, each with its loan.
        let mut used: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for _ in 0..600 {
            boot += random.u64(0..5000);
            clock = match random.u32(0..50) {
                0 => clock.saturating_sub(random.u64(0..60_000)),
                1 => clock + random.u64(0..60_000),
                _ => clock + random.u64(1..3000),
            };
            furthest = furthest.max(clock + 1);
            let now = LendMoment { boot_ms: boot, clock_ms: clock };
            // leafd looks at the clock at least as often as it changes.
            let is_empty = |it: &Cgroup| {
                !processes.iter().any(|(name, one)| one.runs && *it == cgroup(number_of(name)))
            };
            for ending in desk.book.tick(now, is_empty) {
                let gives_back = desk.book.gives_back(&ending);
                desk.book.ended(&ending);
                if gives_back {
                    // Another host may have it now; the registry keeps the ceiling.
                    workers.remove(&ending);
                }
            }
            if random.u32(0..100) == 0 {
                desk.book = LoanBook::new(rules);
                // The registry knows how far the clock had come.
                floor = furthest;
                for one in processes.values_mut() {
                    // One that leafd may have seen end while it was frozen says nothing any more.
                    if !one.is_connected && !one.runs {
                        one.known = None;
                    }
                    one.is_connected = false;
                }
            }
            let who = format!("p{}", random.u32(0..6));
            let one = processes.entry(who.clone()).or_default();
            match random.u32(0..10) {
                0 if one.is_connected => {
                    one.is_connected = false;
                    desk.book.disconnected(now, one.connection);
                }
                1 if one.runs => one.runs = false,
                2 if one.is_connected && !one.runs => {
                    desk.give_back(now, &who, clock + 1);
                    one.known = None;
                }
                3 => {
                    let begun: Vec<_> = desk.begun.clone();
                    if let Some(claim) = begun.get(random.usize(0..begun.len().max(1))) {
                        let worker = *workers.entry(claim.clone()).or_insert_with(|| {
                            next_worker += 1;
                            next_worker
                        });
                        let (limit_ms, reported_boot_ms) = (clock + 10 * FENCE, boot);
                        let begins = ClaimReport::Begins {
                            worker,
                            start_ms: floor,
                            limit_ms,
                            reported_boot_ms,
                        };
                        desk.book.reported(claim, begins);
                        let report = ClaimReport::Reported { limit_ms, reported_boot_ms };
                        desk.book.reported(claim, report);
                    }
                }
                _ => {
                    if !one.is_connected {
                        connection += 1;
                        (one.connection, one.is_connected) = (connection, true);
                    }
                    one.has_cgroup |= one.runs && random.bool();
                    let held = one.known.as_ref().map(|(worker, claim)| held(*worker, claim));
                    let asked = BorrowRequest {
                        cgroup: one.has_cgroup.then(|| cgroup(number_of(&who))),
                        held,
                        ..request(&who, one.connection)
                    };
                    match desk.borrow(now, asked) {
                        // The answer is lost.
                        BorrowAnswer::Lent(_) if random.u32(0..10) == 0 => {}
                        BorrowAnswer::Lent(terms) => {
                            let is_new = one.known.is_none();
                            lent_in_all += u64::from(is_new);
                            let worker = terms.worker;
                            assert!(is_new || one.known.as_ref().unwrap().0 == worker);
                            one.known = Some((worker, terms.claim));
                            if is_new {
                                (one.start_ms, one.runs) = (terms.start_ms, true);
                                (one.loan, one.has_begun) = (lent_in_all, false);
                                one.has_cgroup = false;
                            } else if clock < one.start_ms && !one.has_begun {
                                // It has not begun. No answer makes the start earlier.
                                one.start_ms = one.start_ms.max(terms.start_ms);
                            }
                        }
                        BorrowAnswer::Lost(_) => (one.runs, one.known) = (false, None),
                        BorrowAnswer::NotYet(_) | BorrowAnswer::TooMany(..) => {}
                    }
                }
            }
            for one in processes.values_mut() {
                if let (true, Some((worker, _))) = (one.runs, &one.known)
                    && clock >= one.start_ms
                {
                    one.has_begun = true;
                    // What one process does when the clock goes back is its library's business.
                    let first = *used.entry((*worker, clock)).or_insert(one.loan);
                    assert_eq!(first, one.loan, "seed {seed}: worker {worker} at {clock}");
                }
            }
            let running = processes.values().filter(|one| one.runs);
            let mut held: Vec<_> = running.filter_map(|one| Some(one.known.as_ref()?.0)).collect();
            let count = held.len();
            held.sort_unstable();
            held.dedup();
            assert_eq!(held.len(), count, "seed {seed}: two processes run with one worker ID");
        }
        assert!(!used.is_empty());
    }
    assert!(lent_in_all > 4000, "only {lent_in_all} loans");
}

fn number_of(name: &str) -> u64 {
    name.trim_start_matches('p').parse().unwrap()
}
