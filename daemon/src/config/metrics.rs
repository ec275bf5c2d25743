//! The checks of `[metrics]`.

use super::Config;
use super::access::is_no_pattern;
use super::problems::Problems;

/// The most patterns: a scrape compares each tag with all of them.
const MOST_PATTERNS: usize = 100;

impl Config {
    pub(super) fn check_metrics(&self, problems: &mut Problems) {
        let patterns = &self.metrics.tags;
        if patterns.len() > MOST_PATTERNS {
            let count = patterns.len();
            problems.add("metrics.tags", format!("{count} patterns; at most {MOST_PATTERNS}"));
        }
        if let Some(bad) = patterns.iter().find(|pattern| is_no_pattern(pattern)) {
            problems.add("metrics.tags", format!("no tag can match the pattern {bad:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_bounded_in_number_and_can_match_a_tag() {
        let mut config: Config = toml::from_str("[metrics]\ntags = [\"\"]").unwrap();
        assert!(config.check()[0].to_string().contains("the pattern \"\""));
        config.metrics.tags = vec!["a*".into(); MOST_PATTERNS];
        assert_eq!(config.check(), vec![]);
        config.metrics.tags.push("b".into());
        assert!(config.check()[0].to_string().contains("101 patterns; at most 100"));
    }
}
