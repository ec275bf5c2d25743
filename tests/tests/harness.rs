//! Tests of the harness itself: its database servers, their faults, and its cleanup.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use leafd_tests::database::{Kind, Session};
use leafd_tests::processes::{has_ended, processes_in};
use leafd_tests::stores::wait_until;
use leafd_tests::{Database, PATIENCE, Proxy};
use nix::unistd::Pid;

/// How long a test waits to see that something does not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// The message of an error that the server returned. A broken connection is not such an error.
fn refusal<T>(result: sqlx::Result<T>) -> String {
    match result {
        Err(sqlx::Error::Database(error)) => error.message().to_owned(),
        Err(error) => panic!("not a refusal: {error}"),
        Ok(_) => panic!("the server allowed it"),
    }
}

fn wait_ended(pid: Pid) {
    wait_until(&format!("process {pid} ends"), || has_ended(pid));
}

fn wait_removed(folder: &Path) {
    wait_until(&format!("{} is removed", folder.display()), || !folder.exists());
}

#[test]
fn a_new_database_lets_leaf_in_by_its_password_and_has_no_table() {
    for kind in Kind::ALL {
        let database = Database::start(kind);
        let one = database.leaf_session().query("SELECT 1, NULL");
        assert_eq!(one, [[Some("1".to_owned()), None]]);
        for wrong in ["leaf:guess", "leaf", "somebody:secret", "root", "postgres"] {
            let url = database.url().replace("leaf:secret", wrong);
            let message = refusal(Session::open(&url));
            assert!(message.contains("password"), "{url}: {message}");
        }
        let message = refusal(database.leaf_session().try_query("SELECT * FROM leaf_alloc"));
        assert!(message.contains("exist"), "{message}");
    }
}

#[test]
fn the_user_leaf_has_exactly_the_granted_rights_on_the_table() {
    for kind in Kind::ALL {
        let database = Database::shared(kind).fresh();
        database.create_table();
        database.insert_tag(r"it's \ a tag", i64::MAX, 1000);
        let mut leaf = database.leaf_session();
        leaf.execute("UPDATE leaf_alloc SET max_id = max_id - step");
        assert_eq!(database.max_id(r"it's \ a tag"), i64::MAX - 1000);
        leaf.execute("INSERT INTO leaf_alloc (biz_tag, step) VALUES ('new', 10)");
        assert_eq!(database.max_id("new"), 1);
        let write = "UPDATE leaf_alloc SET step = 2";
        let read = "SELECT step FROM leaf_alloc WHERE biz_tag = 'new'";

        // A change of rights applies to open sessions and to new ones.
        database.revoke_writing();
        for session in [&mut leaf, &mut database.leaf_session()] {
            let message = refusal(session.try_query(write));
            assert!(message.contains("denied"), "{message}");
            assert_eq!(session.query(read), [[Some("10".to_owned())]]);
        }
        database.revoke();
        for session in [&mut leaf, &mut database.leaf_session()] {
            let message = refusal(session.try_query(read));
            assert!(message.contains("denied"), "{message}");
        }
        database.grant();
        leaf.execute(write);
        assert_eq!(leaf.query(read), [[Some("2".to_owned())]]);
        refusal(leaf.try_query("DELETE FROM leaf_alloc"));
    }
}

#[test]
fn a_table_can_be_made_by_any_statements() {
    for kind in Kind::ALL {
        let database = Database::shared(kind).fresh();
        database.create_table_with(
            "-- As an operator might write it.\n\
             CREATE TABLE leaf_alloc (biz_tag varchar(9) PRIMARY KEY, max_id bigint, step int);\n\
             INSERT INTO leaf_alloc VALUES ('orders', 5, 10);",
        );
        database.leaf_session().execute("UPDATE leaf_alloc SET max_id = 6");
        assert_eq!(database.max_id("orders"), 6);
    }
}

#[test]
fn statements_wait_for_a_row_that_a_session_holds_until_it_commits() {
    for kind in Kind::ALL {
        let database = Database::shared(kind).fresh();
        database.create_table();
        database.insert_tag("orders", 1, 1000);
        let mut holder = database.session();
        holder.execute("BEGIN");
        holder.query("SELECT * FROM leaf_alloc WHERE biz_tag = 'orders' FOR UPDATE");
        let statement = "UPDATE leaf_alloc SET max_id = max_id + step";
        let late = database.leaf_session().query_within(A_WHILE, statement);
        assert!(late.is_none(), "{late:?}");
        holder.execute("UPDATE leaf_alloc SET max_id = 500");
        holder.execute("COMMIT");
        database.leaf_session().execute(statement);
        // The server may or may not execute the first update after its connection has ended.
        assert!([1500, 2500].contains(&database.max_id("orders")));
        holder.execute("BEGIN");
        holder.execute("UPDATE leaf_alloc SET max_id = 7");
        drop(holder);
        database.sql("UPDATE leaf_alloc SET step = 1");
        assert_ne!(database.max_id("orders"), 7, "not rolled back");
    }
}

#[test]
fn a_frozen_server_hangs_and_goes_on_when_it_is_thawed() {
    for kind in Kind::ALL {
        let database = Database::start(kind);
        let mut session = database.leaf_session();
        let answered = std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            database.freeze();
            scope.spawn(move || sender.send(session.try_query("SELECT 1").map(|rows| rows.len())));
            assert_eq!(receiver.recv_timeout(A_WHILE).err(), Some(RecvTimeoutError::Timeout));
            database.thaw();
            receiver.recv_timeout(PATIENCE).expect("an answer")
        });
        assert_eq!(answered.unwrap(), 1);
    }
}

#[test]
fn a_killed_server_keeps_what_was_committed_and_comes_back_at_its_port() {
    for kind in Kind::ALL {
        let database = Database::start(kind);
        database.create_table();
        let mut session = database.leaf_session();
        for round in 0..3 {
            database.insert_tag(&format!("tag {round}"), 1, 1000);
            let (port, pid) = (database.port(), database.pid());
            match round {
                0 => database.kill(),
                1 => {
                    database.freeze();
                    database.kill();
                }
                _ => database.stop(),
            }
            assert_eq!(processes_in(&database.folder().join("data")), []);
            session.try_query("SELECT 1").expect_err("the connection is gone");
            let error = Session::open(&database.url()).expect_err("nobody listens");
            assert!(matches!(error, sqlx::Error::Io(_)), "{error}");
            database.start_again();
            assert_eq!(database.port(), port);
            assert_ne!(database.pid(), pid);
            session = database.leaf_session();
            assert_eq!(session.query("SELECT * FROM leaf_alloc").len(), round + 1);
        }
    }
}

#[test]
fn several_servers_run_at_once_and_share_nothing() {
    for kind in Kind::ALL {
        let databases = [Database::start(kind), Database::start(kind)];
        let (one, other) = (&databases[0], &databases[1]);
        let (new, newer) = (one.fresh(), one.fresh());
        for (database, max_id) in [one, other, &new, &newer].into_iter().zip(1..) {
            database.create_table();
            database.insert_tag("orders", max_id, 1000);
        }
        for (database, max_id) in [one, other, &new, &newer].into_iter().zip(1..) {
            assert_eq!(database.max_id("orders"), max_id, "{database:?}");
        }
        one.kill();
        assert_eq!(other.max_id("orders"), 2);
    }
}

#[test]
fn nothing_is_left_of_a_server_whose_test_panics_while_it_is_frozen() {
    for kind in Kind::ALL {
        let (sender, receiver) = channel();
        let test = std::thread::spawn(move || {
            let database = Database::start(kind);
            database.freeze();
            sender.send(database.folder().to_owned()).unwrap();
            sender.send(format!("/proc/{}", database.pid()).into()).unwrap();
            for pid in processes_in(&database.folder().join("data")) {
                sender.send(format!("/proc/{pid}").into()).unwrap();
            }
            panic!("as a test does");
        });
        test.join().expect_err("it panics");
        let left: Vec<PathBuf> = receiver.iter().filter(|path| path.exists()).collect();
        assert_eq!(left, [] as [PathBuf; 0]);
    }
}

#[test]
fn nothing_is_left_of_shared_servers_when_their_process_ends_or_is_killed() {
    for (arguments, killed) in [(&[][..], false), (&[], true), (&["--frozen"], true)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_databases"));
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let folders: Vec<PathBuf> = lines
            .take(Kind::ALL.len())
            .map(|line| line.expect("a line").split(' ').nth(2).expect("a folder").into())
            .collect();
        assert_eq!(folders.len(), Kind::ALL.len());
        let pids: Vec<Pid> =
            folders.iter().flat_map(|folder| processes_in(&folder.join("data"))).collect();
        // MariaDB is one process, PostgreSQL is several.
        assert!(pids.len() > Kind::ALL.len(), "{pids:?}");
        if killed {
            child.kill().expect("it runs");
        } else {
            drop(child.stdin.take());
        }
        assert_eq!(child.wait().expect("its end").success(), !killed);
        pids.into_iter().for_each(wait_ended);
        folders.iter().for_each(|folder| wait_removed(folder));
    }
}

#[test]
fn no_daemon_is_left_when_the_process_of_its_test_is_killed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_one_daemon"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = Pid::from_raw(line.trim().parse().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_ended(pid);
}

#[test]
fn a_server_behind_a_proxy_can_hang_break_and_recover() {
    for kind in Kind::ALL {
        let database = Database::shared(kind).fresh();
        let proxy = Proxy::to(database.port());
        let open = || Session::open(&database.url_at(proxy.port()));
        let mut session = open().unwrap();
        session.execute("SELECT 1");
        proxy.hold();
        assert!(session.query_within(A_WHILE, "SELECT 1").is_none());
        proxy.pass();
        let mut session = open().unwrap();
        proxy.cut();
        session.try_query("SELECT 1").expect_err("the connection is reset");
        open().expect_err("and so are new ones");
        proxy.pass();
        let session = open().unwrap();
        proxy.lose();
        proxy.pass();
        assert!(session.query_within(A_WHILE, "SELECT 1").is_none());
        open().unwrap().execute("SELECT 1");
    }
}
