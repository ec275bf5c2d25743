//! Parses and checks the keys of a store of several databases.

use super::database::kind_of;
use super::problems::{Problem, Problems};
use super::{Config, StoreKind};
use crate::store::{ServerKind, SeveralPlace, StoreLocation};

/// The most databases in a list. Each host keeps connections to all of them.
const MAX_URLS: usize = 16;

impl Config {
    /// Where the databases are. The division may still be missing: `leafd division make` gives its name.
    ///
    /// # Errors
    /// When a key is missing or invalid.
    pub(super) fn several_location(&self) -> Result<StoreLocation, Problem> {
        let problem = |text| Problem::new("store.urls", text).with(&["store.kind"]);
        let urls = &self.store.urls;
        if urls.is_empty() {
            let (mysql, postgres) = (ServerKind::MySql.example(), ServerKind::Postgres.example());
            return Err(problem(format!(
                "is missing; write it like [\"{mysql}\", \"{postgres}\"]"
            )));
        }
        if urls.len() > MAX_URLS {
            return Err(problem(format!("has {} databases, of at most {MAX_URLS}", urls.len())));
        }
        let mut addresses = Vec::with_capacity(urls.len());
        for (index, url) in urls.iter().enumerate() {
            let parsed = kind_of(url)
                .and_then(|kind| {
                    let address = kind.address(url.expose(), self.store.tls_verify);
                    address.map_err(|error| error.to_string())
                })
                .map_err(|why| problem(format!("number {}: {why}", index + 1)))?;
            addresses.push(parsed);
        }
        for (index, address) in addresses.iter().enumerate() {
            let identity = address.identity();
            let twin = addresses.iter().take(index).position(|other| other.identity() == identity);
            if let Some(twin) = twin {
                let text = format!("numbers {} and {} are the same database", twin + 1, index + 1);
                return Err(problem(text));
            }
        }
        let Some(division) = &self.store.division else {
            return Ok(StoreLocation::Several(Box::new(SeveralPlace::undivided(addresses))));
        };
        let place = SeveralPlace::new(addresses, division)
            .map_err(|error| Problem::new("store.division", error))?;
        Ok(StoreLocation::Several(Box::new(place)))
    }

    /// leafd does not lease from several databases before it knows which division they have to be of.
    pub(crate) fn missing_division(&self) -> Option<Problem> {
        let is_missing = self.store.kind == StoreKind::Several && self.store.division.is_none();
        is_missing.then(|| {
            let text = "is missing; `leafd division make` gives each database of store.urls its share \
                        of the IDs, and prints the name to write here";
            Problem::new("store.division", text.to_owned()).with(&["store.kind"])
        })
    }

    pub(super) fn check_several(&self, problems: &mut Problems) {
        let is_several = self.store.kind == StoreKind::Several;
        if !is_several {
            let text = "is set, but only store.kind several uses it";
            for (key, is_set) in [
                ("store.urls", !self.store.urls.is_empty()),
                ("store.division", self.store.division.is_some()),
            ] {
                if is_set {
                    problems.push(Problem::new(key, text.to_owned()).with(&["store.kind"]));
                }
            }
        } else if self.store.url.is_some() {
            let text = "is set, but store.kind is several; add it to store.urls".to_owned();
            problems.push(Problem::new("store.url", text).with(&["store.kind", "store.urls"]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy_and_no_password_is_shown() {
        let store = |keys: &str| format!("[store]\nkind = \"several\"\n{keys}");
        let urls = |urls: &str| store(&format!("urls = [{urls}]"));
        let right = "\"mysql://l@a/x\", \"postgres://l@b/x\"";
        let name = "0123456789abcdef0123456789abcdef";
        assert_eq!(problems(&urls(right)), [""; 0]);
        let some = urls("\"mysql://l:hunter2@a/x\", \"postgres://l@b/x\"");
        assert_eq!(problems(&format!("{some}\npassword = \"hunter2\"")), [""; 0]);
        assert_eq!(problems(&format!("{}\ndivision = \"{name}\"", urls(right))), [""; 0]);
        for (toml, told) in [
            (store(""), "store.urls: is missing"),
            (urls("\"redis://l:hunter2@a/x\""), "number 1: begins with neither"),
            (urls("\"hunter2\""), "number 1: begins with neither"),
            (urls("\"mysql://l@a/x\", \"mysql://l:hunter2@b\""), "number 2: it names no database"),
            (urls("\"mysql://l@a/x\", \"mysql://m:hunter2@a:3306/x\""), "1 and 2 are the same"),
            (format!("{}\nurl = \"mysql://l:hunter2@c/x\"", urls(right)), "add it to store.urls"),
            (
                format!("{}\npassword = \"hunter2\"", urls("\"mysql://l:hunter2@a/x\"")),
                "more than once",
            ),
            (format!("{}\ndivision = \"x\"", urls(right)), "store.division: \"x\" is not 32"),
            (format!("{}\npath = \"/x\"", urls(right)), "store.path"),
            ("[store]\nurls = [\"mysql://l:hunter2@c/x\"]".to_owned(), "only store.kind several"),
            (format!("[store]\ndivision = \"{name}\""), "only store.kind several"),
        ] {
            let found = problems(&toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
        }
    }
}
