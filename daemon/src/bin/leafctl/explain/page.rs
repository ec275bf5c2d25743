//! Reads the runbook: sections with entries, which are headings or items of a list.

use leaf_client::wire::ErrorCode;

/// All entries, in the order of the page.
#[derive(Debug)]
pub(super) struct Runbook<'a> {
    pub(super) entries: Vec<Entry<'a>>,
}

/// What the runbook says about one error, log line, reason or symptom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The title of its section.
    pub(super) section: &'a str,
    /// In Markdown. `…` stands for a value.
    pub(super) heading: &'a str,
    /// In Markdown.
    pub(super) body: String,
    /// The error whose entry this is.
    pub(super) code: Option<ErrorCode>,
    /// Texts that leafd, leafctl, a database or ZooKeeper prints and that this is about; `…` stands
    /// for a value.
    pub(super) phrases: Vec<String>,
}

impl<'a> Runbook<'a> {
    pub(super) fn read(page: &'a str) -> Self {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let (mut section, mut is_open) = ("", false);
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                (section, is_open) = (title, false);
            } else if let Some(heading) = line.strip_prefix("### ") {
                entries.push(Entry::new(section, heading, ""));
                is_open = true;
            } else if let Some(item) = line.strip_prefix("- ")
                && !entries.last().is_some_and(|last| is_open && last.is_below_a_heading(page))
            {
                let (heading, body) = split_item(item);
                entries.push(Entry::new(section, heading, body));
                is_open = true;
            } else if let Some(last) = entries.last_mut().filter(|_| is_open) {
                last.body.push('\n');
                last.body.push_str(line);
            }
        }
        for entry in &mut entries {
            entry.phrases.extend(alternatives(&entry.body));
        }
        Self { entries }
    }
}

impl<'a> Entry<'a> {
    fn new(section: &'a str, heading: &'a str, body: &str) -> Self {
        let number = heading.split(' ').next().and_then(|number| number.parse().ok());
        let code = number.map(ErrorCode::from_number).filter(|code| code.name() != "Other");
        let quoted: Vec<_> = quoted(heading).map(str::to_owned).collect();
        // A log line may quote a command itself.
        let is_item = heading.starts_with('`') || heading.contains(": `");
        let phrases = if is_item { quoted } else { vec![heading.replace("**", "")] };
        Self { section, heading, body: body.to_owned(), code, phrases }
    }

    /// Whether this is a heading, whose text may have lists, and not an item of a list itself.
    fn is_below_a_heading(&self, page: &str) -> bool {
        page.contains(&format!("\n### {}\n", self.heading))
    }
}

/// The heading of an item, up to its colon, and what follows.
fn split_item(item: &str) -> (&str, &str) {
    let colons = item.match_indices(':').filter(|(at, _)| {
        let (before, after) = item.split_at(*at);
        let is_outside = before.matches('`').count().is_multiple_of(2);
        // "Client: `words`: what to do" has its colon after the words.
        is_outside && before.contains([' ', '`', '*']) && (after == ":" || after.starts_with(": "))
    });
    let mut colons = colons.map(|(at, _)| at);
    match colons.next().and_then(|at| item.split_at_checked(at)) {
        Some((heading, body)) => (heading, body.trim_start_matches([':', ' '])),
        None => (item, ""),
    }
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The texts that an entry is about besides its heading: those in backticks that are several words
/// and no command.
fn alternatives(body: &str) -> Vec<String> {
    let body = body.replace('\n', " ");
    let is_text = |words: &&str| {
        let is_command = ["leafctl ", "leafd ", "systemctl ", "chown ", "ulimit "];
        words.contains(' ') && !is_command.iter().any(|command| words.starts_with(command))
    };
    quoted(&body).filter(is_text).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# R\n\n`…` stands for a value.\n\n## Errors\n\n### 302 StoreUnavailable\nThe\n\
                        store. Or `so … it is`: run `leafctl status`.\n- a list\n\n## Words\n\n\
                        Intro.\n\n- `one …`, `two`: repair\n  it.\n- Client: `no such file`: start.\n\
                        - **Twice**: why.\n- A key has no effect: [reload](x.md).\n";

    #[test]
    fn headings_and_items_are_entries_with_their_texts() {
        let runbook = Runbook::read(PAGE);
        let [store, one, client, twice, key] = &runbook.entries[..] else {
            panic!("{:#?}", runbook.entries)
        };
        assert_eq!((store.section, store.code), ("Errors", Some(ErrorCode::StoreUnavailable)));
        assert_eq!(store.phrases, ["302 StoreUnavailable", "so … it is"]);
        assert!(store.body.contains("\n- a list"), "{store:?}");
        assert_eq!((one.heading, one.body.trim()), ("`one …`, `two`", "repair\n  it."));
        assert_eq!(
            (one.section, &*one.phrases),
            ("Words", &["one …".to_owned(), "two".into()][..])
        );
        assert_eq!((client.phrases[0].as_str(), client.body.trim()), ("no such file", "start."));
        assert_eq!((twice.phrases[0].as_str(), twice.body.trim()), ("Twice", "why."));
        assert_eq!(key.heading, "A key has no effect");
    }
}
