//! State directories that released versions wrote. They are kept below `tests/fixtures/VERSION/NAME`,
//! and copied to a test's folder as if leafd had written them there.
//!
//! | file | content |
//! |---|---|
//! | `state/` | the state directory |
//! | `settings` | the configuration of the daemon that wrote it, one `KEY=VALUE` per line |
//! | `issued` | the IDs that clients received, one `SPACE FIRST COUNT` per line |
//! | `rows` | with a shared database: the table at the end, one `TAG MAX_ID STEP` per line |
//! | `tree` | with ZooKeeper: the persistent nodes, one `PATH DATA` per line |

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use leafd::state::mark::FileMark;
use leafd::state::properties::Properties;
use leafd::store::ServerKind;

use crate::Ensemble;
use crate::binaries::workspace;
use crate::daemon::Home;
use crate::database::{Database, Kind};
use crate::unique_ids::UniqueIds;
use crate::zookeeper::Tree;

/// The machine ID with which all fixtures were made.
pub const MACHINE: &str = "fixture";

/// A fixture in a test's folder. Keep it as long as the test uses the fixture.
#[derive(Debug)]
pub struct LaidOut {
    /// The settings for a leafd on this state.
    pub home: Home,
    /// The shared database, if the fixture has one.
    pub database: Option<Database>,
}

/// One of the folders below `tests/fixtures`.
#[derive(Debug, Clone)]
pub struct Fixture {
    folder: PathBuf,
}

impl Fixture {
    /// The fixture with this version and name.
    #[must_use]
    pub fn of(version: &str, name: &str) -> Self {
        Self { folder: root().join(version).join(name) }
    }

    /// All fixtures of all versions.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> = folders(&root())
            .flat_map(|version| folders(&version))
            .map(|folder| Self { folder })
            .collect();
        all.sort_by(|one, other| one.folder.cmp(&other.folder));
        assert!(!all.is_empty(), "there are no fixtures");
        all
    }

    /// `VERSION/NAME`.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.folder.strip_prefix(root()).unwrap_or(&self.folder);
        name.display().to_string()
    }

    /// The IDs that were issued before the fixture was saved. None of them may be issued again.
    #[must_use]
    pub fn issued(&self) -> UniqueIds {
        let seen = UniqueIds::default();
        for line in self.lines("issued") {
            let [space, first, count] = fields(&line);
            seen.add_run(&space, number(&first), number(&count));
        }
        seen
    }

    /// The name spaces in [`Self::issued`]: tags, and perhaps `snowflake`.
    #[must_use]
    pub fn spaces(&self) -> Vec<String> {
        let mut spaces: Vec<_> =
            self.lines("issued").iter().map(|line| fields::<3>(line)[0].clone()).collect();
        spaces.sort();
        spaces.dedup();
        spaces
    }

    /// Copies the fixture to `folder`, with the database or tree that its daemon needs. The state
    /// directory is marked as if leafd had created it there.
    #[must_use]
    pub fn lay_out(&self, folder: &Path) -> LaidOut {
        let mut home = Home::new(folder).with("STATE_MACHINE_ID", MACHINE);
        for line in self.lines("settings") {
            let (key, value) = line.split_once('=').expect("KEY=VALUE");
            home = home.with(key, value);
        }
        self.copy_state(&home.state());
        let database = self.has("rows").then(|| self.database());
        if let Some(database) = &database {
            home = home.with_database(database);
            let address = ServerKind::MySql.address(&database.url(), false);
            let identity = address.expect("the address").identity();
            rewrite(&home.state().join("owner.properties"), |owner| owner.set("store", identity));
        }
        if self.has("tree") {
            home = self.with_tree(home);
        }
        LaidOut { home, database }
    }

    fn copy_state(&self, state: &Path) {
        fs::create_dir_all(state).expect("the state directory");
        fs::set_permissions(state, fs::Permissions::from_mode(0o700)).expect("its mode");
        for entry in fs::read_dir(self.folder.join("state")).expect("the fixture's files") {
            let entry = entry.expect("a file");
            fs::copy(entry.path(), state.join(entry.file_name())).expect("a copy");
        }
        let mark = FileMark::of(&fs::metadata(state).expect("the directory"));
        rewrite(&state.join("owner.properties"), |owner| owner.set("directory", mark.write()));
    }

    fn database(&self) -> Database {
        let database = Database::shared(Kind::MariaDb).fresh();
        database.create_table();
        for line in self.lines("rows") {
            let [tag, max_id, step] = fields(&line);
            database.insert_tag(&tag, max_id.parse().expect("max_id"), step.parse().expect("step"));
        }
        database
    }

    fn with_tree(&self, home: Home) -> Home {
        static ENSEMBLE: LazyLock<Ensemble> = LazyLock::new(Ensemble::single);
        let chroot = ENSEMBLE.fresh_path();
        let tree = Tree::at(&ENSEMBLE.connect_string());
        for line in self.lines("tree") {
            let (path, data) = line.split_once(' ').expect("PATH DATA");
            let path = format!("{chroot}{path}");
            if tree.get(&path).is_none() {
                tree.create(&path, data.as_bytes());
            } else {
                tree.set(&path, data.as_bytes());
            }
        }
        rewrite(&home.state().join("worker.properties"), |worker| {
            let below = worker.get("registry").expect("a registry").split("/snowflake").nth(1);
            let registry = format!("zookeeper {chroot}/snowflake{}", below.unwrap_or_default());
            worker.set("registry", registry);
        });
        home.with_zookeeper(&(ENSEMBLE.connect_string() + &chroot)).with_peer("127.0.0.1:0")
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().map(str::to_owned).collect()
    }
}

/// The folder of all fixtures.
#[must_use]
pub fn root() -> PathBuf {
    workspace().join("tests/fixtures")
}

fn folders(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(path).expect("a folder of fixtures");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir())
}

fn fields<const N: usize>(line: &str) -> [String; N] {
    let fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
    fields.try_into().unwrap_or_else(|_| panic!("{line:?} has not {N} fields"))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Changes a properties file, with a new checksum and the same comment.
fn rewrite(path: &Path, change: impl FnOnce(&mut Properties)) {
    let content = fs::read_to_string(path).expect("the file");
    let comment = content.lines().next().and_then(|line| line.strip_prefix("# "));
    let mut properties = Properties::read(content.as_bytes()).expect("properties");
    change(&mut properties);
    fs::write(path, properties.write(comment.expect("a comment"))).expect("the file");
}
