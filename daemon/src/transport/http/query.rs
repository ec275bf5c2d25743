//! The query of a URL: names and values, percent-encoded.

use std::borrow::Cow;

use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use super::problem::HttpProblem;

/// The parameters of one request that leafd knows, in the order of their names.
#[derive(Debug)]
pub(super) struct HttpQuery<'a> {
    values: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> HttpQuery<'a> {
    /// Reads a query. `known` are the parameters of the route.
    ///
    /// # Errors
    /// When a parameter is unknown, comes twice, or is not UTF-8 in percent-encoding.
    pub(super) fn parse(
        text: Option<&'a str>,
        known: &[&'static str],
    ) -> Result<Self, HttpProblem> {
        let mut values: Vec<(&'static str, Cow<'a, str>)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            let Some(name) = known.iter().find(|known| **known == name) else {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(bad(format!("no parameter {name:?}; there is {known}")));
            };
            if values.iter().any(|(other, _)| other == name) {
                return Err(bad(format!("the parameter {name:?} comes twice")));
            }
            values.push((name, decoded(value)?));
        }
        Ok(Self { values })
    }

    /// The value of one parameter, for a route that ignores all others, as Java Leaf's do. `None` if it
    /// is missing.
    ///
    /// # Errors
    /// When it comes twice, or is not UTF-8 in percent-encoding.
    pub(super) fn find(
        text: Option<&'a str>,
        name: &str,
    ) -> Result<Option<Cow<'a, str>>, HttpProblem> {
        let pairs = text.unwrap_or_default().split('&');
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut found = pairs.filter(|(key, _)| decoded(key).is_ok_and(|key| key == name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) => decoded(value).map(Some),
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(bad(format!("the parameter {name:?} comes twice"))),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// Takes the value of one parameter out.
    pub(super) fn take(mut self, name: &str) -> Option<Cow<'a, str>> {
        let at = self.values.iter().position(|(known, _)| *known == name)?;
        Some(self.values.swap_remove(at).1)
    }

    /// A whole number. What is too large for the type is as wrong as what is no number.
    ///
    /// # Errors
    /// When it is not one.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        name: &str,
    ) -> Result<Option<T>, HttpProblem> {
        self.text(name).map(|text| number(name, text)).transpose()
    }
}

/// Reads a whole number in decimal digits, and nothing else: no sign, no space.
///
/// # Errors
/// Names `what`.
pub(super) fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, HttpProblem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| digits);
    parsed.ok_or_else(|| bad(format!("{what} {text:?} is not a whole number, or is too large")))
}

/// Decodes a segment of a path, in which `+` stands for itself. A `%` without two hexadecimal digits is
/// refused, not taken literally: whoever forgets to encode a tag would make another one.
///
/// # Errors
/// Says that it is not percent-encoding, or that the bytes are not UTF-8.
pub(super) fn segment(text: &str) -> Result<Cow<'_, str>, String> {
    let begins_with_digits = |after: &str| {
        matches!(after.as_bytes(), [high, low, ..]
            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    };
    let is_encoded = text.split('%').skip(1).all(begins_with_digits);
    let decoded = is_encoded.then(|| percent_decode_str(text).decode_utf8().ok()).flatten();
    decoded.ok_or_else(|| {
        format!("{text:?} is not UTF-8 in percent-encoding, in which %25 is a percent sign")
    })
}

/// Decodes a name or a value of a query, in which `+` stands for a space.
fn decoded(text: &str) -> Result<Cow<'_, str>, HttpProblem> {
    if !text.contains('+') {
        return segment(text).map_err(bad);
    }
    let spaced = text.replace('+', " ");
    let decoded = segment(&spaced).map_err(bad)?;
    Ok(Cow::Owned(decoded.into_owned()))
}

pub(super) fn bad(text: String) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_ones_are_refused() {
        let query = HttpQuery::parse(Some("a=1&b=x%2Fy+z&&c"), &["a", "b", "c"]).unwrap();
        assert_eq!(query.number::<u32>("a").unwrap(), Some(1));
        assert_eq!(
            (query.text("b"), query.text("c"), query.text("d")),
            (Some("x/y z"), Some(""), None)
        );
        for wrong in ["e=1", "a=1&a=1", "a=%ff", "%ff=1", "a=%c3", "a=%zz", "a=+%"] {
            assert!(HttpQuery::parse(Some(wrong), &["a"]).is_err(), "{wrong}");
        }
        assert!(HttpQuery::parse(None, &[]).is_ok());
    }

    #[test]
    fn one_parameter_is_found_among_others_that_nobody_knows() {
        let find = |text| HttpQuery::find(Some(text), "id").map(Option::unwrap_or_default);
        for (text, value) in [("_=17&id=5%31&%ff=1", "51"), ("id=", ""), ("", ""), ("ids=1", "")] {
            assert_eq!(find(text).unwrap(), value, "{text}");
        }
        assert!(find("id=1&id=1").is_err() && find("id=%ff").is_err());
    }

    #[test]
    fn a_number_is_digits_that_fit() {
        for (text, expected) in [("0", Some(0)), ("007", Some(7)), ("4294967295", Some(u32::MAX))] {
            assert_eq!(number::<u32>("count", text).ok(), expected);
        }
        for wrong in
            ["", "-1", "+1", " 1", "1.0", "1e3", "0x1", "4294967296", "100000000000000000000"]
        {
            assert!(number::<u32>("count", wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(segment("a+b%2Bc%20d").unwrap(), "a+b+c d");
        assert_eq!(segment("%25zz%2525").unwrap(), "%zz%25");
        for wrong in ["%c3", "%zz", "%", "%2", "a%", "%%41", "%2%35", "%+1", "%4ü"] {
            assert!(segment(wrong).is_err(), "{wrong}");
        }
    }
}
