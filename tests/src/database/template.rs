//! The data of a new server with the user and the database `leaf`, made once and copied for every
//! test. Its name has a hash of the server's version and of this code, so that no test starts on an
//! outdated one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use super::product::Product;
use super::server::Server;
use crate::cache;
use crate::instance::{Home, copy_folder};

/// Fills the home's data folder.
pub(crate) fn copy(product: &'static dyn Product, home: &Home) {
    copy_folder(&template(product, home), &home.data());
}

fn template(product: &'static dyn Product, home: &Home) -> PathBuf {
    let name = format!("{}-{:016x}", product.name(), recipe(product, home));
    cache::made_once(&name, |new| make(product, new))
}

/// A hash of all that the template depends on.
fn recipe(product: &dyn Product, home: &Home) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The files belong to the account that the server runs as.
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

pub(super) fn run(home: &Home, mut command: Command) -> Vec<u8> {
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
