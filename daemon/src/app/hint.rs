//! How to get the first ID: a line for the log that works when it is typed.

use std::path::{Path, PathBuf};

/// The command that asks the daemon on `socket` for an ID, given where every client looks by
/// itself, the directories of `PATH`, and where this program is.
pub(super) fn first_command(
    socket: &Path,
    clients_look_at: Option<&Path>,
    search: &[PathBuf],
    program: Option<&Path>,
) -> String {
    let beside = program.and_then(Path::parent).map(|directory| directory.join("leafctl"));
    let leafctl = if search.iter().any(|directory| directory.join("leafctl").is_file()) {
        "leafctl".to_owned()
    } else if let Some(path) = beside.filter(|path| path.is_file()) {
        path.display().to_string()
    } else {
        "cargo run --release --bin leafctl --".to_owned()
    };
    if clients_look_at == Some(socket) {
        format!("{leafctl} next orders")
    } else {
        format!("{leafctl} --socket {} next orders", socket.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_shortest_that_works() {
        let dir = tempfile::tempdir().unwrap();
        let socket = Path::new("/run/leafd/leafd.sock");
        let program = dir.path().join("leafd");
        let hint = |search: &[PathBuf]| first_command(socket, Some(socket), search, Some(&program));
        assert_eq!(hint(&[]), "cargo run --release --bin leafctl -- next orders");
        let leafctl = dir.path().join("leafctl");
        std::fs::write(&leafctl, "").unwrap();
        assert_eq!(hint(&[]), format!("{} next orders", leafctl.display()));
        let search = [dir.path().to_owned()];
        assert_eq!(hint(&search), "leafctl next orders");
        for (own, looked_at) in [("/s", Some(socket)), ("/s", None)] {
            let other = first_command(Path::new(own), looked_at, &search, None);
            assert_eq!(other, "leafctl --socket /s next orders");
        }
    }
}
