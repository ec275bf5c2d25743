//! Moves from another source of IDs to leafd: the manual's commands, run by bash, and applications that take
//! IDs from both.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaf_client::{Error, Options, blocking};
use tempfile::TempDir;

use crate::background::Background;
use crate::binaries::{program, workspace};
use crate::daemon::Home;
use crate::database::Session;
use crate::manual;
use crate::stores::wait_until;
use crate::unique_ids::UniqueIds;

/// How many IDs each phase of a move has to see before the test goes on.
pub const SOME: u64 = 300;

/// How many applications take IDs at a time.
pub const WRITERS: usize = 4;

/// One section of the page, whose commands a shell runs as an operator would.
#[derive(Debug)]
pub struct Guide {
    blocks: Vec<String>,
    done: RefCell<BTreeSet<usize>>,
    folder: TempDir,
}

impl Guide {
    /// The section with this heading, for an operator whose leafctl asks this host's leafd.
    #[must_use]
    pub fn new(heading: &str, home: &Home) -> Self {
        let path = workspace().join("docs/operations/moving.md");
        let page = std::fs::read_to_string(path).unwrap();
        let mut sections = page.split("\n## ");
        let section = sections.find(|section| section.starts_with(&format!("{heading}\n")));
        let blocks = manual::blocks(section.expect("the section"), "sh");
        let folder = tempfile::tempdir().unwrap();
        let guide = Self { blocks, done: RefCell::default(), folder };
        let leafctl = program("leafctl");
        let socket = home.socket();
        let leafctl =
            format!("LEAFD_SOCKET={} exec {} \"$@\"", socket.display(), leafctl.display());
        guide.install("leafctl", &leafctl);
        guide
    }

    /// Puts a program in front of the one that the page names: it adds the login.
    pub fn install(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Runs the one block that contains this text. Variables go on to the next block, as in one shell.
    pub fn try_run(&self, part: &str) -> Result<String, String> {
        let mut found = self.blocks.iter().enumerate().filter(|(_, block)| block.contains(part));
        let (number, block) = found.next().unwrap_or_else(|| panic!("no command with {part}"));
        assert!(found.next().is_none(), "several blocks with {part}");
        let script = format!(
            "touch variables; . ./variables\n{block}\n\
             (declare -p first last end 2>/dev/null || true) > variables"
        );
        let (own, system) = (self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-ec", &script]).current_dir(self.folder.path());
        let output = bash.env("PATH", format!("{own}:{system}")).output().expect("bash");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        self.done.borrow_mut().insert(number);
        Ok(text(&output.stdout))
    }

    /// As [`Self::try_run`], but fails the test if the block fails.
    pub fn run(&self, part: &str) -> String {
        self.try_run(part).unwrap_or_else(|errors| panic!("{part}: {errors}"))
    }

    /// The number in a variable of the operator's shell.
    #[must_use]
    pub fn variable(&self, name: &str) -> u64 {
        let variables = std::fs::read_to_string(self.folder.path().join("variables")).unwrap();
        let start = format!("declare -- {name}=\"");
        let value = variables.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {variables}"))
    }

    /// Leaves out the block that contains this text, which is for other cases than this one.
    pub fn leave_out(&self, part: &str) {
        let found = self.blocks.iter().position(|block| block.contains(part));
        self.done.borrow_mut().insert(found.unwrap_or_else(|| panic!("no command with {part}")));
    }

    /// Asserts that every block of the section was run.
    pub fn assert_all_run(&self) {
        let left = self.blocks.iter().enumerate().filter(|(n, _)| !self.done.borrow().contains(n));
        let left: Vec<_> = left.collect();
        assert!(left.is_empty(), "not run: {left:?}");
    }
}

/// What the old source answers.
#[derive(Debug)]
pub enum Old {
    /// An ID.
    Id(u64),
    /// It refuses to give any more.
    Closed,
    /// It failed, and the application cannot know of an ID.
    Nothing,
}

/// An application's way to the old source, and to its own rows.
pub trait Source: Send {
    /// Takes an ID.
    fn take(&mut self) -> Old;

    /// Keeps an ID that leafd gave.
    fn keep(&mut self, _id: u64) {}
}

/// Applications that take IDs from the old source until it is closed or they are told to move, and then from
/// leafd. On the way back they return to the old source when leafd has no such tag any more.
#[derive(Debug)]
pub struct Writers {
    old: Arc<AtomicU64>,
    new: Arc<AtomicU64>,
    moved: Arc<Vec<AtomicBool>>,
    back: Arc<AtomicBool>,
    threads: Vec<Background<()>>,
    tag: &'static str,
}

impl Writers {
    /// Starts applications on these hosts that use the tag `orders`.
    #[must_use]
    pub fn start(homes: &[Home], seen: &UniqueIds, source: impl Fn() -> Box<dyn Source>) -> Self {
        Self::start_for("orders", homes, seen, source)
    }

    /// As [`Self::start`], with another tag.
    #[must_use]
    pub fn start_for(
        tag: &'static str,
        homes: &[Home],
        seen: &UniqueIds,
        source: impl Fn() -> Box<dyn Source>,
    ) -> Self {
        let (old, new) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let moved: Arc<Vec<AtomicBool>> =
            Arc::new((0..WRITERS).map(|_| AtomicBool::default()).collect());
        let back = Arc::<AtomicBool>::default();
        let threads = (0..WRITERS).map(|number| {
            let (seen, options) = (seen.clone(), homes[number % homes.len()].options());
            let (old, new, moved) = (Arc::clone(&old), Arc::clone(&new), Arc::clone(&moved));
            let back = Arc::clone(&back);
            let source = source();
            Background::start(move |stop| {
                let moved = moved.get(number).expect("a flag for each writer");
                write(&|| stop.is_set(), tag, source, options, &seen, (moved, &back), (&old, &new));
            })
        });
        let threads = threads.collect();
        Self { old, new, moved, back, threads, tag }
    }

    /// How many IDs the old source has given.
    #[must_use]
    pub fn old_ids(&self) -> u64 {
        self.old.load(Ordering::Relaxed)
    }

    /// How many IDs leafd has given.
    #[must_use]
    pub fn new_ids(&self) -> u64 {
        self.new.load(Ordering::Relaxed)
    }

    /// Counts an ID of the old source that the test took itself.
    pub fn add_old(&self, seen: &UniqueIds, id: u64) {
        seen.add_run(self.tag, id, 1);
        self.old.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an ID of leafd that the test took itself.
    pub fn add_new(&self, seen: &UniqueIds, id: u64) {
        seen.add_run(self.tag, id, 1);
        self.new.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves one application to leafd, or back.
    pub fn set_moved(&self, number: usize, moved: bool) {
        self.moved[number].store(moved, Ordering::Relaxed);
    }

    /// Whether applications return to the old source when leafd does not know the tag.
    pub fn set_back(&self, back: bool) {
        self.back.store(back, Ordering::Relaxed);
    }

    fn wait(&self, what: &str, counter: impl Fn(&Self) -> u64) {
        let before = counter(self);
        wait_until(what, || {
            assert!(!self.threads.iter().any(Background::has_ended), "a writer found a bug");
            counter(self) >= before + SOME
        });
    }

    /// Waits until the old source has given [`SOME`] more IDs.
    pub fn wait_old(&self) {
        self.wait("the old source gives IDs", Self::old_ids);
    }

    /// Waits until leafd has given [`SOME`] more IDs.
    pub fn wait_new(&self) {
        self.wait("leafd gives IDs", Self::new_ids);
    }

    /// Waits until every application uses leafd.
    pub fn wait_all_moved(&self) {
        wait_until("all applications have moved", || {
            self.moved.iter().all(|moved| moved.load(Ordering::Relaxed))
        });
    }

    /// Stops the applications and prints how many IDs they got. If one came twice, the test fails here.
    pub fn finish(self, what: &str, seen: &UniqueIds) {
        let (old, new) = (self.old, self.new);
        self.threads.into_iter().for_each(Background::finish);
        let (old, new) = (old.load(Ordering::Relaxed), new.load(Ordering::Relaxed));
        assert_eq!(seen.count(self.tag), old + new, "every ID was recorded once");
        println!("{what}: {old} IDs of the old source and {new} of leafd, all distinct");
    }
}

fn write(
    is_stopped: &dyn Fn() -> bool,
    tag: &str,
    mut source: Box<dyn Source>,
    options: Options,
    seen: &UniqueIds,
    (moved, back): (&AtomicBool, &AtomicBool),
    (old, new): (&AtomicU64, &AtomicU64),
) {
    let mut client = blocking::Client::new(options);
    while !is_stopped() {
        let (id, counter) = if moved.load(Ordering::Relaxed) {
            match client.next(tag) {
                Ok(id) => {
                    source.keep(id);
                    (id, new)
                }
                Err(error) => {
                    if is_unknown_tag(&error) && back.load(Ordering::Relaxed) {
                        moved.store(false, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
        } else {
            match source.take() {
                Old::Id(id) => (id, old),
                Old::Closed => {
                    moved.store(true, Ordering::Relaxed);
                    continue;
                }
                Old::Nothing => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
        };
        seen.add_run(tag, id, 1);
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_unknown_tag(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.code().number() == 202)
}

/// An application's session with a SQL server, which it opens again after an error.
#[derive(Debug)]
pub struct Sql {
    url: String,
    session: Option<Session>,
    closed: &'static str,
}

impl Sql {
    /// A session at one of [`Session::open`]'s URLs. `closed` is the SQLSTATE by which the old source refuses.
    #[must_use]
    pub const fn new(url: String, closed: &'static str) -> Self {
        Self { url, session: None, closed }
    }

    /// Runs statements up to the first that fails, and returns the last number that one answered. The
    /// application has seen it, whatever becomes of its transaction.
    pub fn number(&mut self, statements: &[&str]) -> Old {
        if self.session.is_none() {
            self.session = Session::open(&self.url).ok();
        }
        let Some(session) = &mut self.session else { return Old::Nothing };
        let mut number = None;
        for statement in statements {
            match session.try_query(statement) {
                Ok(rows) => {
                    number = rows.into_iter().flatten().flatten().next().or(number);
                }
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let is_closed = code.as_deref() == Some(self.closed);
                    self.session = None;
                    if is_closed {
                        return Old::Closed;
                    }
                    break;
                }
            }
        }
        number.map_or(Old::Nothing, |number| Old::Id(number.parse().expect("a number")))
    }

    /// Runs a statement that must not fail while the server is there.
    pub fn run(&mut self, statement: &str) {
        loop {
            if self.session.is_none() {
                self.session = Session::open(&self.url).ok();
            }
            let Some(session) = &mut self.session else { return };
            match session.try_query(statement) {
                Ok(_) => return,
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let is_duplicate = code.is_some_and(|code| code == "23000" || code == "23505");
                    assert!(!is_duplicate, "DUPLICATE: {statement}: {error}");
                    self.session = None;
                }
            }
        }
    }
}
