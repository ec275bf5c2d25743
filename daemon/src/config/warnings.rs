//! What works but needs the operator's attention.

use std::path::PathBuf;

use super::Config;
use crate::rfc3339::rfc3339;

impl Config {
    /// What works but needs the operator's attention.
    #[must_use]
    pub(crate) fn warnings(&self, now_ms: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        let layout = &self.snowflake.layout;
        let days = layout.end_ms().saturating_sub(now_ms) / 86_400_000;
        if self.snowflake.enabled && self.no_snowflakes_at(now_ms).is_none() && days < 365 {
            warnings.push(format!(
                "snowflake.layout {layout}: its time field ends in {days} days; there are no IDs \
                 after that"
            ));
        }
        for (key, path) in [
            ("socket.path", &self.socket.path),
            ("state.dir", &self.state.dir),
            ("store.path", &self.store.path),
        ] {
            warnings.extend(path.as_ref().and_then(|path| relative(key, path)));
        }
        warnings
    }

    /// Why there can be no snowflake IDs while the clock reads `now_ms` (ms since 1970): the clock
    /// or the layout is wrong. `None` if there can, or if they are turned off.
    #[must_use]
    pub(crate) fn no_snowflakes_at(&self, now_ms: u64) -> Option<String> {
        let layout = &self.snowflake.layout;
        let (now, epoch, end) =
            (rfc3339(now_ms), rfc3339(layout.epoch_ms()), rfc3339(layout.end_ms()));
        if !self.snowflake.enabled {
            None
        } else if now_ms < layout.epoch_ms() {
            Some(format!(
                "snowflake.layout {layout}: its epoch, {epoch}, lies after the clock, {now}; \
                 snowflake IDs begin when the clock is right"
            ))
        } else if now_ms >= layout.end_ms() {
            Some(format!(
                "snowflake.layout {layout}: its time field ended at {end}, and the clock says \
                 {now}; snowflake IDs begin when the clock is right. If it is right, choose a \
                 layout with a later epoch"
            ))
        } else {
            None
        }
    }
}

/// The warning for a path that means something else in each working directory.
fn relative(key: &str, path: &PathBuf) -> Option<String> {
    if path.is_absolute() {
        return None;
    }
    Some(format!(
        "{key} {path:?} is relative: where it leads depends on the directory in which leafd starts; \
         write an absolute path"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn a_clock_outside_the_layout_gives_a_warning_and_no_problem() {
        let said = |toml: &str| {
            let config: Config = toml::from_str(toml).unwrap();
            assert_eq!((config.check(), config.warnings(NOW)), (vec![], vec![]));
            config.no_snowflakes_at(NOW)
        };
        let found = said("[snowflake]\nlayout = \"41/10/12@1700000000001\"").unwrap();
        assert!(found.contains("lies after the clock, 2023-11-14T22:13:20.000Z"), "{found}");
        let found = said("[snowflake]\nlayout = \"31/20/12@1288834974657\"").unwrap();
        assert!(found.contains("ended at 2010-"), "{found}");
        assert_eq!(said("[snowflake]\nenabled = false\nlayout = \"31/20/12@0\""), None);
    }

    #[test]
    fn a_time_field_that_ends_within_a_year_gives_a_warning() {
        let config: Config = toml::from_str("[snowflake]\nlayout = \"baidu\"").unwrap();
        let end = config.snowflake.layout.end_ms();
        assert!(config.warnings(end - 86_400_000)[0].contains("in 1 days"));
        assert!(config.warnings(end - 366 * 86_400_000).is_empty());
    }

    #[test]
    fn a_relative_path_gives_a_warning_with_its_key() {
        let toml = "[socket]\npath = \"leafd.sock\"\n[state]\ndir = \"/absolute\"";
        let config: Config = toml::from_str(toml).unwrap();
        let found = config.warnings(NOW);
        assert!(found.len() == 1 && found[0].contains("socket.path \"leafd.sock\""), "{found:?}");
    }
}
