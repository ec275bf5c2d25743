//! Confirms that the operator means to release a worker ID: if its owner comes back, IDs could come
//! twice.

use std::io;
use std::path::Path;

use leaf_client::wire::WorkerStatus;

use super::view;
use crate::ask::{self, quoted};
use crate::exit::Failure;
use crate::output::harmless;

/// Asks the operator to type the owner of `status`.
///
/// # Errors
/// `Usage` if the operator types anything else; without a terminal, the error has the command line
/// to use.
pub(super) fn release(
    status: &WorkerStatus,
    pool: Option<&str>,
    socket: Option<&Path>,
    ask: Option<impl FnOnce(&str) -> io::Result<String>>,
) -> Result<(), Failure> {
    let owner = harmless(&status.owner);
    // An owner in a pool is one run of a command, which does not start again.
    let (condition, option) = match pool {
        Some(pool) => ("none of its processes will ever run again", format!(" --pool {pool}")),
        None => ("it will never start again with its state directory", String::new()),
    };
    let Some(ask) = ask else {
        return Err(Failure::Usage(format!(
            "not released: the owner of worker ID {worker} is {owner} ({}, last report {} ago). If \
             {condition}, release it:\n\
             {} worker release {worker}{option} --owner {}",
            view::state(status),
            view::age(status),
            ask::leafctl(socket),
            quoted(&owner),
            worker = status.worker,
        )));
    };
    let mut question: String = view::lines(status).map(|line| line + "\n").collect();
    question.push_str(&format!(
        "Release it only if {condition}; otherwise IDs could come twice.\nType the owner to release \
         it: "
    ));
    let what = format!("owner of worker ID {}", status.worker);
    ask::for_name(ask, &question, &status.owner, &what, "not released")
}

#[cfg(test)]
mod tests {
    use super::super::tests::worker;
    use super::*;
    use crate::ask::Ask;

    const NOBODY: Option<Ask> = None;

    #[test]
    fn typing_the_owner_confirms_and_anything_else_does_not() {
        let typed = |line: &str| {
            release(
                &worker(513),
                None,
                None,
                Some(|question: &str| {
                    for part in ["513", "10.0.0.7:2182\n", "not live", "2 d 2 h ago", "never start"]
                    {
                        assert!(question.contains(part), "{part} is not in:\n{question}");
                    }
                    assert!(!question.contains('\x07'), "{question:?}");
                    Ok(line.to_owned())
                }),
            )
        };
        for line in ["10.0.0.7:2182\n", "10.0.0.7:2182\r\n", "10.0.0.7:2182"] {
            assert!(typed(line).is_ok(), "{line:?}");
        }
        for line in ["", "\n", "y\n", "513\n", "10.0.0.7:218\n", " 10.0.0.7:2182\n"] {
            let failure = typed(line).unwrap_err();
            assert_eq!(failure.code(), 64);
            assert!(failure.to_string().starts_with("not released"), "{line:?}: {failure}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_releases_nothing() {
        let broken = |_: &str| Err(io::ErrorKind::InvalidData.into());
        assert_eq!(release(&worker(513), None, None, Some(broken)).unwrap_err().code(), 64);
    }

    #[test]
    fn without_a_terminal_the_error_has_the_command_line_to_use() {
        let failure = release(&worker(513), None, None, NOBODY).unwrap_err();
        assert_eq!(failure.code(), 64);
        let text = failure.to_string();
        assert!(text.ends_with("\nleafctl worker release 513 --owner 10.0.0.7:2182"), "{text}");
        assert!(text.contains("(not live, last report 2 d 2 h ago)"), "{text}");

        let status = WorkerStatus { owner: "node's one".to_owned(), ..worker(513) };
        let text = release(&status, None, Some(Path::new("/a b")), NOBODY).unwrap_err().to_string();
        let command = r"leafctl --socket '/a b' worker release 513 --owner 'node'\''s one'";
        assert!(text.ends_with(command), "{text}");

        let text = release(&worker(513), Some("ten"), None, NOBODY).unwrap_err().to_string();
        assert!(text.contains("If none of its processes will ever run again"), "{text}");
        assert!(text.ends_with("release 513 --pool ten --owner 10.0.0.7:2182"), "{text}");
    }
}
