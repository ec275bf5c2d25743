//! The log line with the command that gets the first ID, ready to be typed.

use std::path::{Path, PathBuf};

use crate::config::Config;

/// The command that asks the daemon on `socket`, given the default socket of clients, the
/// directories of `PATH`, the path of this program, and leafctl's arguments.
///
/// Without a leafctl in `PATH`, it is this program, which needs no build and is never older than
/// the daemon that prints the command.
pub(super) fn first_command(
    socket: &Path,
    clients_look_at: Option<&Path>,
    search: &[PathBuf],
    program: Option<&Path>,
    ask: &str,
) -> String {
    let is_there = search.iter().any(|directory| directory.join("leafctl").is_file());
    let leafctl = match program {
        Some(program) if !is_there => format!("{} ctl", quoted(program)),
        _ => "leafctl".to_owned(),
    };
    if clients_look_at == Some(socket) {
        format!("{leafctl} {ask}")
    } else {
        format!("{leafctl} --socket {} {ask}", quoted(socket))
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+@%:,".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The purpose of the first command, and its arguments: it gets an ID or, if tags have to be
/// created first and there are no snowflake IDs, lists the tags.
pub(super) fn first_call(config: &Config) -> (&'static str, &'static str) {
    match (config.makes_tags(), config.snowflake.enabled) {
        (true, _) => ("get an ID", "next orders"),
        (false, true) => ("get an ID", "snowflake"),
        (false, false) => ("see the tags", "tag list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_the_shortest_command_that_works() {
        let dir = tempfile::tempdir().unwrap();
        let socket = Path::new("/run/leafd/leafd.sock");
        let ask = "next orders";
        let hint = |program: Option<&str>, search: &[PathBuf]| {
            first_command(socket, Some(socket), search, program.map(Path::new), ask)
        };
        let search = [dir.path().to_owned()];
        let program = Some("/src/target/release/leafd");
        assert_eq!(hint(program, &search), "/src/target/release/leafd ctl next orders");
        assert_eq!(hint(Some("/my src/leafd"), &search), "'/my src/leafd' ctl next orders");
        assert_eq!(hint(None, &search), "leafctl next orders");
        std::fs::write(dir.path().join("leafctl"), "").unwrap();
        assert_eq!(hint(program, &search), "leafctl next orders");
        for (own, looked_at) in [("/s", Some(socket)), ("/s", None)] {
            let other = first_command(Path::new(own), looked_at, &search, None, ask);
            assert_eq!(other, "leafctl --socket /s next orders");
        }
    }

    #[test]
    fn the_hint_uses_a_new_tag_only_if_leafd_creates_tags_on_first_use() {
        let shared = "[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\"\n";
        for (toml, call) in [
            (String::new(), "next orders"),
            (shared.to_owned(), "snowflake"),
            (format!("{shared}[segment]\nauto-create = true"), "next orders"),
            (format!("{shared}[snowflake]\nenabled = false"), "tag list"),
        ] {
            let config: Config = toml::from_str(&toml).unwrap();
            assert_eq!(first_call(&config).1, call, "{toml}");
        }
    }
}
