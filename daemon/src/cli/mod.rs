//! The command lines of both programs. They are in the library, not in the programs, so that
//! `examples/manual` can generate manual pages and completions from them.

pub mod bench;
pub mod completion;
pub mod examples;
pub mod forecast;
pub mod form;
pub mod leafctl;
pub mod leafd;
pub mod run;
pub mod status;
pub mod top;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser};

/// Parses a command line, whose first word is the program's name. The help has examples.
///
/// # Errors
/// clap's error, which can also be the help or the version.
pub fn parse<P: Parser>(words: impl IntoIterator<Item = OsString>) -> Result<P, clap::Error> {
    let command = P::command();
    let name = command.get_name().to_owned();
    let mut command = examples::in_help(command, &name);
    let matches = command.try_get_matches_from_mut(words);
    let parsed = matches.and_then(|mut matches| {
        P::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    parsed.map_err(without_wrong_tips)
}

/// clap's error without its tip to pass an unknown option as a value (`use '-- --json'`): to leafd and
/// leafctl, what looks like an option is a mistyped option, and not the name of a tag.
fn without_wrong_tips(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// clap's error with the right tip if somebody typed a command of leafctl after `leafd`.
#[must_use]
pub fn with_tip_of_ctl(mut error: clap::Error) -> clap::Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    if leafctl::Cli::command().find_subcommand(&typed).is_some() {
        let tip = format!("leafctl has this command: leafd ctl {typed}");
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_leafctl_after_leafd_leads_to_ctl() {
        let told = |word: &str| {
            let words = ["leafd", word].map(Into::into);
            let error = parse::<leafd::Arguments>(words).expect_err("it is wrong");
            with_tip_of_ctl(error).render().to_string()
        };
        assert!(told("next").contains("tip: leafctl has this command: leafd ctl next"));
        assert!(told("chekc").contains("'check'") && !told("chekc").contains("ctl"));
    }

    fn message(words: &[&str]) -> String {
        let error = parse::<leafctl::Cli>(words.iter().map(Into::into)).expect_err("it is wrong");
        error.render().to_string()
    }

    #[test]
    fn an_unknown_option_is_not_taken_for_a_value() {
        for words in [
            &["leafctl", "next", "orders", "--yaml"][..],
            &["leafctl", "tag", "show", "--wide"],
            &["leafctl", "decode", "--jason", "5"],
            &["leafctl", "--verbose"],
        ] {
            let text = message(words);
            assert!(!text.contains("as a value") && text.contains("unexpected argument"), "{text}");
        }
    }

    #[test]
    fn a_mistyped_word_still_gets_the_nearest_one() {
        assert!(message(&["leafctl", "snowflakes"]).contains("'snowflake'"));
        assert!(message(&["leafctl", "next", "orders", "--jsn"]).contains("'--json'"));
    }
}
