//! Lets environment variables override the keys of the file. The default configuration says which
//! keys there are, and which type each value has.

use toml::{Table, Value};

const PREFIX: &str = "LEAFD_";

/// Variables with the prefix that are not keys.
const OTHERS: [&str; 2] = ["LEAFD_SOCKET", "LEAFD_CONFIG"];

/// A variable that sets no key, or sets it to a wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadVariable {
    #[error("{0} is not a key of the configuration; `leafd default-config` shows them all")]
    Unknown(String),
    #[error("{name}={value:?} is not {expected}")]
    Type { name: String, value: String, expected: &'static str },
}

fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{section}_{key}").to_uppercase().replace('-', "_")
}

/// Overrides the keys of `file` by `variables`. `defaults` is the default configuration.
///
/// # Errors
/// When a variable with the prefix is not a key, or has a value of another type.
pub(super) fn overlay(
    file: &mut Table,
    defaults: &Table,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(), BadVariable> {
    let keys = defaults.iter().flat_map(|(section, keys)| {
        keys.as_table().into_iter().flatten().map(move |(key, value)| (section, key, value))
    });
    let keys: Vec<_> =
        keys.map(|(section, key, value)| (variable(section, key), section, key, value)).collect();
    for (name, value) in variables {
        if !name.starts_with(PREFIX) || OTHERS.contains(&name.as_str()) {
            continue;
        }
        let Some((_, section, key, default)) = keys.iter().find(|(known, ..)| *known == name)
        else {
            if is_of_kubernetes(&name) {
                continue;
            }
            return Err(BadVariable::Unknown(name));
        };
        let value = convert(name, value, default)?;
        let keys = file.entry(section.as_str()).or_insert_with(|| Value::Table(Table::new()));
        // If the file has something other than a section here, loading it reports that.
        if let Some(keys) = keys.as_table_mut() {
            keys.insert((*key).clone(), value);
        }
    }
    Ok(())
}

/// Whether Kubernetes may have set the variable: it does so in every container if there is a
/// Service whose name begins with `leafd`.
fn is_of_kubernetes(name: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|mark| name.contains(mark))
}

fn convert(name: String, value: String, default: &Value) -> Result<Value, BadVariable> {
    let expected = match default {
        Value::Integer(_) => match value.parse() {
            Ok(number) => return Ok(Value::Integer(number)),
            Err(_) => "a whole number",
        },
        Value::Boolean(_) => match value.parse() {
            Ok(truth) => return Ok(Value::Boolean(truth)),
            Err(_) => "true or false",
        },
        Value::Array(_) => match format!("list = {value}").parse::<Table>() {
            Ok(mut table) if table.len() == 1 => match table.remove("list") {
                Some(list @ Value::Array(_)) => return Ok(list),
                _ => "a list such as [{ … }]",
            },
            _ => "a list such as [{ … }]",
        },
        _ => return Ok(Value::String(value)),
    };
    Err(BadVariable::Type { name, value, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaid(name: &str, value: &str) -> Result<Table, BadVariable> {
        let defaults: Table = super::super::DEFAULT.parse().unwrap();
        let mut file: Table = "[worker]\nid = 3".parse().unwrap();
        overlay(&mut file, &defaults, [(name.to_owned(), value.to_owned())]).map(|()| file)
    }

    #[test]
    fn a_variable_overrides_the_file_and_has_the_type_of_its_key() {
        assert_eq!(overlaid("LEAFD_WORKER_ID", "7").unwrap()["worker"]["id"], Value::Integer(7));
        let file = overlaid("LEAFD_SNOWFLAKE_ENABLED", "false").unwrap();
        assert_eq!(file["snowflake"]["enabled"], Value::Boolean(false));
        assert_eq!(file["worker"]["id"], Value::Integer(3));
        let file = overlaid("LEAFD_SOCKET_PATH", "5").unwrap();
        assert_eq!(file["socket"]["path"], Value::String("5".into()));
    }

    #[test]
    fn a_list_is_written_like_in_the_file() {
        let file = overlaid("LEAFD_ACCESS_RULES", "[{ users = [7], tags = [\"x\"] }]").unwrap();
        assert_eq!(file["access"]["rules"][0]["users"][0], Value::Integer(7));
        for bad in ["7", "", "[] # }\nother = 1", "[{ users = ["] {
            let error = overlaid("LEAFD_ACCESS_RULES", bad).unwrap_err().to_string();
            assert!(error.ends_with("is not a list such as [{ … }]"), "{error}");
        }
    }

    #[test]
    fn an_error_names_a_wrong_variable_and_those_of_other_programs_are_ignored() {
        let error = overlaid("LEAFD_WORKER_IDD", "7").unwrap_err().to_string();
        assert!(error.contains("LEAFD_WORKER_IDD"));
        let error = overlaid("LEAFD_WORKER_ID", "many").unwrap_err().to_string();
        assert_eq!(error, "LEAFD_WORKER_ID=\"many\" is not a whole number");
        for name in [
            "LEAFD_SOCKET",
            "PATH",
            "LEAFD_SERVICE_HOST",
            "LEAFD_PORT_80_TCP",
            "LEAFD_METRICS_SERVICE_PORT_HTTP",
            "LEAFD_METRICS_PORT",
        ] {
            assert!(overlaid(name, "/x").is_ok(), "{name}");
        }
    }
}
