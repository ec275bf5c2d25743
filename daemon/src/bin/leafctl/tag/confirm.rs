//! Confirms that the operator means to delete a tag: applications that use it fail without it.

use std::io;
use std::path::Path;

use leaf_client::wire::TagStatus;

use crate::ask::{self, quoted};
use crate::exit::Failure;
use crate::output::harmless;

/// Asks the operator to type the tag's name.
///
/// # Errors
/// `Usage` if the operator types anything else; without a terminal, the error has the command line
/// to use.
pub(super) fn delete(
    tag: &TagStatus,
    socket: Option<&Path>,
    ask: Option<impl FnOnce(&str) -> io::Result<String>>,
) -> Result<(), Failure> {
    let name = harmless(&tag.tag);
    let Some(ask) = ask else {
        return Err(Failure::Usage(format!(
            "not deleted: there is no terminal to confirm it at. To delete {name}:\n\
             {} tag delete --yes -- {}",
            ask::leafctl(socket),
            quoted(&tag.tag),
        )));
    };
    let question = format!(
        "{name} has max_id {}; this leafd has issued {} of its IDs since it started. Applications \
         that ask for {name} will fail.\nType the tag to delete it: ",
        tag.max_id, tag.issued,
    );
    ask::for_name(ask, &question, &tag.tag, "tag", "not deleted")
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
    fn without_a_terminal_the_error_has_the_command_line_to_use() {
        let nobody: Option<Ask> = None;
        let text = delete(&tag("it's"), Some(Path::new("/s")), nobody).unwrap_err().to_string();
        assert!(text.ends_with(r"leafctl --socket /s tag delete --yes -- 'it'\''s'"), "{text}");
    }
}
