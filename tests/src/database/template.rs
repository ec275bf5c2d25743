//! The data of a new instance with the user and the database `leaf`, made once for all tests and
//! kept beside them in cargo's target folder. It depends on the version of the server and on all
//! that is done here, so that nobody starts on yesterday's.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use super::product::Product;
use super::server::Server;
use crate::instance::{Home, copy_folder};

/// Fills the home's data folder.
pub(crate) fn copy(product: &'static dyn Product, home: &Home) {
    copy_folder(&template(product, home), &home.data());
}

fn template(product: &'static dyn Product, home: &Home) -> PathBuf {
    // …/target/debug/deps/name-hash for a test, …/target/debug/name for a program
    let program = std::env::current_exe().expect("the own path");
    let target = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let folder = target.expect("a target folder").join("leafd-tests");
    std::fs::create_dir_all(&folder).expect("a folder for templates");
    let template = folder.join(format!("{}-{:016x}", product.name(), recipe(product, home)));
    // Test processes that start together wait for the first one.
    let lock = File::create(template.with_extension("lock")).expect("a lock");
    lock.lock().expect("the lock");
    if !template.exists() {
        let new = template.with_extension("new");
        if new.exists() {
            // Somebody was ended in the middle of it.
            std::fs::remove_dir_all(&new).expect("room for a template");
        }
        make(product, &new);
        std::fs::rename(&new, &template).expect("the template");
    }
    template
}

/// All that the template is made of, as a number.
fn recipe(product: &dyn Product, home: &Home) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Its files belong to somebody.
    geteuid().as_raw().hash(&mut hasher);
    run(home, product.version()).hash(&mut hasher);
    for source in
        [include_str!("template.rs"), include_str!("mariadb.rs"), include_str!("postgres.rs")]
    {
        source.hash(&mut hasher);
    }
    hasher.finish()
}

fn make(product: &'static dyn Product, to: &Path) {
    let home = Home::new(product.account());
    run(&home, product.install(&home.data()));
    product.configure(&home.data());
    let server = Server::serve(product, home, &[]);
    let mut session = server.session(product.first_database());
    for statement in product.create_user() {
        session.execute(statement);
    }
    drop(session);
    server.create_database("leaf");
    server.stop();
    std::fs::create_dir(to).expect("a template");
    copy_folder(&server.home().data(), to);
}

fn run(home: &Home, mut command: Command) -> Vec<u8> {
    let output = home.settle(&mut command).stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|error| panic!("{}", home.cannot_start(&command, &error)));
    assert!(
        output.status.success(),
        "{command:?} failed\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}
