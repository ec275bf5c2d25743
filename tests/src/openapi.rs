//! leafd's OpenAPI document, and whether an answer is one that it describes. Only the part of JSON
//! Schema that the document uses is known; an unknown keyword fails the test.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::binaries::workspace;

/// The document.
#[must_use]
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let path = workspace().join("daemon/src/transport/http/api/openapi.json");
        let text = std::fs::read_to_string(path).expect("the document");
        serde_json::from_str(&text).expect("JSON")
    })
}

/// Fails unless the document describes this answer to a request.
pub fn check(method: &str, path: &str, status: u16, content_type: &str, body: &[u8]) {
    let what = || format!("{method} {path}: {status}, {content_type}");
    let path = path.split('?').next().unwrap_or_default();
    let Some(described) = operation(method, path) else {
        let problem = resolved(&document()["components"]["schemas"]["Problem"]);
        let json: Value = serde_json::from_slice(body).unwrap_or_else(|_| panic!("{}", what()));
        assert!([400, 401, 403, 404, 405, 413, 415, 421].contains(&status), "{}", what());
        return fits(problem, &json, "#").unwrap_or_else(|why| panic!("{}: {why}", what()));
    };
    let response = resolved(&described["responses"][status.to_string()]);
    assert!(response.is_object(), "{} is not described", what());
    let schema = &response["content"][content_type]["schema"];
    assert!(schema.is_object(), "the type of {} is not described", what());
    let text = std::str::from_utf8(body).expect("UTF-8");
    let value = if content_type.starts_with("text/") {
        Value::String(text.to_owned())
    } else {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}: {text}", what()))
    };
    fits(schema, &value, "#").unwrap_or_else(|why| panic!("{}: {why}\n{text}", what()));
}

/// The description of a method of a path. `HEAD` is as `GET`.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = document()["paths"].as_object().expect("paths");
    let (_, methods) = paths.iter().find(|(pattern, _)| matches(pattern, path))?;
    let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
    methods.get(&method)
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) =
        (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(|(pattern, part)| {
            pattern == part || (pattern.starts_with('{') && !part.is_empty())
        })
}

/// What a value that may be a reference stands for.
#[must_use]
pub fn resolved(value: &Value) -> &Value {
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
    let pointer = reference.strip_prefix('#').expect("a reference into the document");
    let found = document().pointer(pointer);
    let found: &Value = found.unwrap_or_else(|| panic!("{reference} leads nowhere"));
    resolved(found)
}

const IGNORED: [&str; 5] = ["description", "default", "examples", "format", "$ref"];

/// Whether `value` fits `schema`; the error says where and why not.
pub fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = resolved(schema);
    let rules = schema.as_object().ok_or_else(|| format!("{at}: no schema"))?;
    for (keyword, rule) in rules {
        let holds = match keyword.as_str() {
            "type" => types(rule).iter().any(|kind| is_of(kind, value)),
            "enum" => rule.as_array().is_some_and(|values| values.contains(value)),
            "oneOf" => {
                let schemas = rule.as_array().expect("a list");
                schemas.iter().filter(|one| fits(one, value, at).is_ok()).count() == 1
            }
            "pattern" => {
                assert_eq!(rule, "^[0-9]+$", "this file knows one pattern");
                value.as_str().is_none_or(|text| {
                    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
                })
            }
            "minimum" => value.as_i64().is_none_or(|number| Some(number) >= rule.as_i64()),
            "maximum" => value.as_i64().is_none_or(|number| Some(number) <= rule.as_i64()),
            "minLength" => {
                length(value.as_str().map(|text| text.chars().count()), rule, |a, b| a >= b)
            }
            "maxLength" => {
                length(value.as_str().map(|text| text.chars().count()), rule, |a, b| a <= b)
            }
            "minItems" => length(value.as_array().map(Vec::len), rule, |a, b| a >= b),
            "maxItems" => length(value.as_array().map(Vec::len), rule, |a, b| a <= b),
            "maxProperties" => length(value.as_object().map(Map::len), rule, |a, b| a <= b),
            "required" => value.as_object().is_none_or(|members| {
                rule.as_array().is_some_and(|names| {
                    names.iter().all(|name| members.contains_key(name.as_str().unwrap_or_default()))
                })
            }),
            "additionalProperties" => {
                assert_eq!(rule, false, "this file knows no other value");
                value.as_object().is_none_or(|members| {
                    members.keys().all(|name| schema["properties"].get(name).is_some())
                })
            }
            "properties" => {
                let known = rule.as_object().expect("properties");
                for (name, schema) in known {
                    if let Some(member) = value.get(name) {
                        fits(schema, member, &format!("{at}/{name}"))?;
                    }
                }
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(rule, item, &format!("{at}/{index}"))?;
                }
                true
            }
            ignored if IGNORED.contains(&ignored) => true,
            other => return Err(format!("{at}: this file does not know {other:?}")),
        };
        if !holds {
            return Err(format!("{at}: {value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn length(found: Option<usize>, rule: &Value, holds: fn(u64, u64) -> bool) -> bool {
    let rule = rule.as_u64().expect("a number");
    found.is_none_or(|found| holds(found as u64, rule))
}

fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("this file does not know the type {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_breaks_its_schema_is_found_with_its_place() {
        let schema = json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": { "a": { "type": ["integer", "null"], "minimum": 1 },
                            "b": { "type": "array", "items": { "pattern": "^[0-9]+$" } } }
        });
        for right in [json!({"a": 1}), json!({"a": null, "b": ["7"]})] {
            assert_eq!(fits(&schema, &right, "#"), Ok(()));
        }
        for (wrong, at) in [
            (json!({}), "#: "),
            (json!({"a": 0}), "#/a: "),
            (json!({"a": "1"}), "#/a: "),
            (json!({"a": 1, "c": 1}), "#: "),
            (json!({"a": 1, "b": ["7", "x"]}), "#/b/1: "),
        ] {
            let error = fits(&schema, &wrong, "#").unwrap_err();
            assert!(error.starts_with(at), "{error}");
        }
    }
}
