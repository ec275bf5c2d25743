//! Reads the operator's manual and the default configuration, so that tests can compare them.

/// A configuration key as the manual or the file documents it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `section.key`.
    pub name: String,
    /// The environment variable that sets it.
    pub variable: String,
    /// Its default, as written in the file.
    pub default: String,
}

const HEAD: &str = "| key | variable | default | range | meaning |";

/// The keys in all tables of keys in `page`.
#[must_use]
pub fn keys(page: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut lines = page.lines();
    while lines.any(|line| line == HEAD) {
        for row in lines.by_ref().skip(1).take_while(|line| line.starts_with('|')) {
            let mut cells = row.split('|').skip(1).map(|cell| cell.trim().trim_matches('`'));
            let mut next = || cells.next().unwrap_or_default().to_owned();
            keys.push(Key { name: next(), variable: next(), default: next() });
        }
    }
    keys
}

/// The keys of a configuration file that sets each key to its default.
#[must_use]
pub fn keys_of_file(text: &str) -> Vec<Key> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, default)) = line.split_once(" = ") {
            let name = format!("{section}.{key}");
            let variable = format!("LEAFD_{name}").to_uppercase().replace(['.', '-'], "_");
            keys.push(Key { name, variable, default: default.to_owned() });
        }
    }
    keys
}

/// The headings `### …` in the section `## SECTION` of `page`.
#[must_use]
pub fn entries<'a>(page: &'a str, section: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| line.strip_prefix("## ") != Some(section)).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    lines.filter_map(|line| line.strip_prefix("### ")).collect()
}

/// The text of each fenced block of `language` in `page`, without the indent of a list.
#[must_use]
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let unindented = line.trim_start();
        if unindented.strip_prefix("```") != Some(language) {
            continue;
        }
        let indent = line.len() - unindented.len();
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        let inside = inside.map(|line| line.get(indent..).unwrap_or_default());
        blocks.push(inside.collect::<Vec<_>>().join("\n"));
    }
    blocks
}

/// The commands of a block of shell, each on one line.
#[must_use]
pub fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    joined.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lose_their_indent_and_commands_their_line_ends() {
        let page = "a\n```sh\none \\\n  more\n\ntwo\n```\n- b\n\n  ```sh\n  three\n  ```\n```toml\nx\n```\n";
        let blocks = blocks(page, "sh");
        assert_eq!(blocks, ["one \\\n  more\n\ntwo", "three"]);
        assert_eq!(commands(&blocks[0]), ["one    more", "two"]);
    }

    #[test]
    fn keys_are_read_from_every_table_of_keys_and_from_a_file() {
        let row = "| `a.b-c` | `LEAFD_A_B_C` | `\"5s\"` | 1s to 2s | x |";
        let page = format!(
            "# K\n{HEAD}\n|---|\n{row}\n\ntext\n\n| key | default |\n|---|---|\n| `x` | `1` |\n\n\
             {HEAD}\n|---|\n{}\n",
            row.replace("a.b-c", "d.e")
        );
        let names: Vec<_> = keys(&page).into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["a.b-c", "d.e"]);
        assert_eq!(keys(&page)[0], keys_of_file("# c\n[a]\nb-c = \"5s\"\n")[0]);
    }

    #[test]
    fn only_the_entries_of_the_named_section_are_returned() {
        let page = "## A\n### one\ntext\n### two\n## B\n### three\n";
        assert_eq!(entries(page, "A"), ["one", "two"]);
        assert_eq!(entries(page, "B"), ["three"]);
    }
}
