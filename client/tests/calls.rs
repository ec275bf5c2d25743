//! The result of each call, and the arguments that a client refuses without asking the daemon.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use common::{patient, with_both};
use leaf_client::testing::Fault;
use leaf_client::wire::{SnowflakeState, WorkerState};
use leaf_client::{Error, ErrorCode, Invalid, Layout, WireError, WorkerStatus};

#[test]
fn segment_ids_are_dense_per_tag() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        assert_eq!(client.next("order").unwrap(), 1);
        let ids = client.next_many("order", 10_000).unwrap();
        assert_eq!((ids.len(), ids.first()), (10_000, 2));
        assert!(ids.into_iter().eq(2..10_002));
        assert_eq!(client.next("user").unwrap(), 1);
        assert_eq!(client.next("order").unwrap(), 10_002);
        assert_eq!(daemon.connections(), 1);
    });
}

#[test]
fn snowflake_ids_are_distinct_and_can_be_decoded() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        let before = SystemTime::now();
        let ids = client.snowflake_many(10_000).unwrap();
        assert!(ids.runs().len() > 1, "10,000 IDs do not fit in a millisecond");
        let mut seen: HashSet<u64> = ids.into_iter().collect();
        assert_eq!(seen.len(), 10_000);
        let id = client.snowflake().unwrap();
        assert!(seen.insert(id));
        let unix_ms = Layout::LEAF.decode(id).unwrap().unix_ms;
        let before = before.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        assert!(u128::from(unix_ms) >= before);
    });
}

#[test]
fn time_and_status_come_from_the_daemon() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        assert!(client.time().unwrap() > SystemTime::UNIX_EPOCH);
        client.next_many("order", 5).unwrap();
        let status = client.status().unwrap();
        assert_eq!((status.connections, status.segments.issued), (1, 5));
        assert_eq!(status.snowflake.state, SnowflakeState::Serving);
    });
}

#[test]
fn tags_are_created_listed_shown_and_changed() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        for tag in ["b", "a", "c"] {
            let made = client.tag_create(tag, 50, 1000, "for people").unwrap();
            assert_eq!((made.row_step, made.max_id), (50, 1000));
        }
        assert_eq!(client.next("b").unwrap(), 1000);
        let names = |tags: Vec<leaf_client::TagStatus>| {
            tags.into_iter().map(|tag| tag.tag).collect::<Vec<_>>()
        };
        assert_eq!(names(client.tag_list("", 2).unwrap()), ["a", "b"]);
        assert_eq!(names(client.tag_list("b", 2).unwrap()), ["c"]);
        assert_eq!(names(client.tags_used("a", 2).unwrap()), ["b", "c"]);
        assert_eq!(client.tag_set_step("c", 70).unwrap().row_step, 70);
        assert_eq!(client.tag_show("c").unwrap().row_step, 70);
        let again = client.tag_create("a", 50, 1, "").unwrap_err();
        assert_eq!(again.code(), Some(ErrorCode::TagExists));
        assert_eq!(client.tag_show("d").unwrap_err().code(), Some(ErrorCode::UnknownTag));
    });
}

#[test]
fn forecasts_come_in_pages_or_for_one_tag() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        for tag in ["b", "a", "c"] {
            client.next_many(tag, 5).unwrap();
        }
        let names = |page: leaf_client::ForecastPage| {
            page.tags.into_iter().map(|tag| tag.tag).collect::<Vec<_>>()
        };
        assert_eq!(names(client.tag_forecasts("", 2).unwrap()), ["a", "b"]);
        assert_eq!(names(client.tag_forecasts("b", 2).unwrap()), ["c"]);
        assert_eq!(names(client.tag_forecasts("c", 2).unwrap()), [""; 0]);
        let page = client.tag_forecast("b").unwrap();
        assert_eq!((page.tags[0].max_id, page.tags.len()), (6, 1));
        assert_eq!(client.tag_forecast("d").unwrap_err().code(), Some(ErrorCode::UnknownTag));
    });
}

#[test]
fn public_ids_are_made_and_read_in_their_order() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        let ids: Vec<u64> = (0..32).map(|at| 1000 - at).collect();
        let texts = client.public_encode("order", &ids).unwrap();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(client.public_decode("order", &texts).unwrap(), ids);
        assert_eq!(client.public_decode("", &texts[3..4]).unwrap(), [997]);
        let error = client.public_decode("order", &[texts[0], "-"]).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadPublicId));
        assert!(client.public_encode("order", &[0; 33]).is_err());
    });
}

#[test]
fn a_tag_created_again_after_deletion_starts_where_it_ended() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        client.next_many("order", 5).unwrap();
        assert_eq!(client.tag_delete("order").unwrap().max_id, 6);
        let again = client.tag_delete("order").unwrap_err();
        assert_eq!(again.code(), Some(ErrorCode::UnknownTag));
        assert_eq!(client.tag_create("order", 50, 1, "").unwrap().max_id, 6);
        assert_eq!(client.next("order").unwrap(), 6);
    });
}

/// A worker ID whose owner reported an hour ago and is not connected.
fn stale_worker(worker: u64) -> WorkerStatus {
    WorkerStatus {
        worker,
        owner: format!("10.0.0.{worker}:2182"),
        address: format!("10.0.0.{worker}:2182"),
        state: WorkerState::Held,
        live: false,
        own: false,
        reported_unix_ms: 1_600_000_000_000,
        age_ms: 3_600_000,
        ceiling_unix_ms: 1_600_000_003_000,
        limit_unix_ms: Some(1_600_043_200_000),
    }
}

#[test]
fn worker_ids_are_listed_by_pages_and_released_with_their_owner() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        for worker in [7, 3] {
            daemon.put_worker(stale_worker(worker));
        }
        let page = client.worker_list(0, 2).unwrap();
        assert_eq!(page.iter().map(|worker| worker.worker).collect::<Vec<_>>(), [1, 3]);
        assert!(page[0].own && page[0].live && page[0].state == WorkerState::Held);
        assert_eq!(client.worker_list(4, 2).unwrap(), [stale_worker(7)]);
        assert_eq!(client.worker_list(8, 2).unwrap(), []);

        let refused = |result: Result<WorkerStatus, Error>| result.unwrap_err().code();
        let code = refused(client.worker_release(2, "10.0.0.2:2182"));
        assert_eq!(code, Some(ErrorCode::UnknownWorker));
        let code = refused(client.worker_release(7, "10.0.0.3:2182"));
        assert_eq!(code, Some(ErrorCode::WrongOwner));
        let code = refused(client.worker_release(1, &page[0].owner));
        assert_eq!(code, Some(ErrorCode::WorkerInUse));
        let free = WorkerStatus { state: WorkerState::Released, ..stale_worker(7) };
        assert_eq!(client.worker_release(7, "10.0.0.7:2182").unwrap(), free);
        assert_eq!(client.worker_list(4, 2).unwrap(), [free]);
    });
}

#[test]
fn a_release_is_repeated_if_its_answer_is_lost_and_succeeds_again() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        daemon.put_worker(WorkerStatus { state: WorkerState::Released, ..stale_worker(7) });
        daemon.fault_after(0, Fault::Close);
        let released = client.worker_release(7, "10.0.0.7:2182").unwrap();
        assert_eq!((released.state, daemon.connections()), (WorkerState::Released, 2));
    });
}

#[test]
fn invalid_arguments_are_refused_without_connecting() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        let invalid = |result: Result<(), Error>| match result {
            Err(Error::Invalid(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(invalid(client.next("").map(drop)), Invalid::EmptyTag);
        assert_eq!(invalid(client.next_many("a", 0).map(drop)), Invalid::CountZero);
        assert_eq!(invalid(client.tag_list("", 101).map(drop)), Invalid::PageSize(101));
        assert_eq!(invalid(client.tag_set_step("a", 0).map(drop)), Invalid::StepZero);
        assert_eq!(invalid(client.tags_used("", 101).map(drop)), Invalid::PageSize(101));
        assert_eq!(invalid(client.tag_delete("").map(drop)), Invalid::EmptyTag);
        let refused = Invalid::FirstOutOfRange { first: 0, step: 50 };
        assert_eq!(invalid(client.tag_create("a", 50, 0, "").map(drop)), refused);
        assert_eq!(invalid(client.worker_list(0, 101).map(drop)), Invalid::PageSize(101));
        let long = "x".repeat(257);
        assert_eq!(invalid(client.worker_release(1, &long).map(drop)), Invalid::OwnerTooLong(257));
        assert_eq!(daemon.connections(), 0);
    });
}

#[test]
fn an_error_of_the_daemon_is_passed_on_unchanged() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        let error = client.next_many("order", 100_001).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadCount));
        assert!(!error.is_temporary());

        let refusal = WireError::new(ErrorCode::StoreUnavailable, "no range of \"order\"")
            .with_detail(7)
            .with_retry_after_ms(250);
        daemon.fault_after(0, Fault::Refuse(refusal.clone()));
        let error = client.next("order").unwrap_err();
        assert!(error.is_temporary() && error.to_string().contains("no range of \"order\""));
        assert_eq!(error.retry_after(), Some(Duration::from_millis(250)));
        assert!(matches!(error, Error::Refused(same) if same == refusal));
        assert_eq!(client.next("order").unwrap(), 1, "the connection still works");
        assert_eq!(daemon.connections(), 1);
    });
}

#[test]
fn an_unknown_error_number_is_passed_on() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon));
        for (number, temporary) in [(399, true), (4242, false)] {
            let refusal = WireError { code: number, ..WireError::new(ErrorCode::BadTag, "new") };
            daemon.fault_after(0, Fault::Refuse(refusal));
            let error = client.time().unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::Other(number)));
            assert_eq!(error.is_temporary(), temporary);
            assert_eq!(error.to_string(), format!("leafd refused: error {number}: new"));
        }
    });
}

#[test]
fn the_daemon_gets_the_callers_timeout() {
    with_both(|daemon, make| {
        let mut client = make(patient(&daemon).timeout(Duration::from_secs(3600)));
        client.next("order").unwrap();
        let told = daemon.last_timeout_ms().unwrap();
        // A little less than the timeout. A busy machine may take some of it, but not ten minutes.
        assert!((3_000_000..3_600_000).contains(&told), "{told}");
    });
}
