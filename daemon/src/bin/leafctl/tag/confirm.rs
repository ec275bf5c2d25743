//! Whether somebody means it: applications that use a tag fail without it.

use std::io;
use std::path::Path;

use leaf_client::wire::TagStatus;

use crate::ask::quoted;
use crate::exit::Failure;
use crate::output::harmless;

/// Has the name of the tag typed.
///
/// # Errors
/// `Usage` when something else is typed, and, with the command line to use, when there is nobody to
/// ask.
pub(super) fn delete(
    tag: &TagStatus,
    socket: Option<&Path>,
    ask: Option<impl FnOnce(&str) -> io::Result<String>>,
) -> Result<(), Failure> {
    let name = harmless(&tag.tag);
    let Some(ask) = ask else {
        let socket =
            socket.map_or_else(String::new, |path| format!(" --socket {}", quoted(path.display())));
        return Err(Failure::Usage(format!(
            "not deleted: nobody is there to confirm it. To delete {name}:\n\
             leafctl{socket} tag delete --yes -- {}",
            quoted(&tag.tag),
        )));
    };
    let question = format!(
        "{name} has max_id {} and gave {} IDs here since the start. Applications that ask for it \
         will fail.\nThe tag, to delete it: ",
        tag.max_id, tag.issued,
    );
    let typed = ask(&question)
        .map_err(|error| Failure::Usage(format!("not deleted: cannot read the tag: {error}")))?;
    let typed = typed.trim_end_matches(['\n', '\r']);
    if typed == tag.tag {
        return Ok(());
    }
    Err(Failure::Usage(format!("not deleted: the tag is {name}, not {typed:?}")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::tag;
    use super::*;
    use crate::ask::Ask;

    #[test]
    fn typing_the_tag_confirms_and_anything_else_deletes_nothing() {
        let typed = |line: &str| {
            delete(
                &tag("order"),
                None,
                Some(|question: &str| {
                    assert!(question.contains("order") && question.contains("3001"), "{question}");
                    Ok(line.to_owned())
                }),
            )
        };
        assert!(typed("order\n").is_ok() && typed("order").is_ok());
        for line in ["", "\n", "y\n", "orders\n", " order\n"] {
            let failure = typed(line).unwrap_err();
            assert_eq!(failure.code(), 64);
            assert!(failure.to_string().starts_with("not deleted"), "{failure}");
        }
        let broken = |_: &str| Err(io::ErrorKind::InvalidData.into());
        assert_eq!(delete(&tag("order"), None, Some(broken)).unwrap_err().code(), 64);
    }

    #[test]
    fn without_a_terminal_the_command_line_to_use_is_told() {
        let nobody: Option<Ask> = None;
        let text = delete(&tag("it's"), Some(Path::new("/s")), nobody).unwrap_err().to_string();
        assert!(text.ends_with(r"leafctl --socket /s tag delete --yes -- 'it'\''s'"), "{text}");
    }
}
