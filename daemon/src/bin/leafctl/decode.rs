//! `leafctl decode`: takes snowflake IDs apart. Local; leafd is not asked.

use std::io::Write;

use leaf_client::{Decoded, Layout};
use leafd::cli::leafctl::DecodeArgs;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::Output;
use leafd::rfc3339::rfc3339;

/// An ID and its parts, as `--json` prints them.
#[derive(Debug, PartialEq, Serialize)]
struct View {
    id: u64,
    time: String,
    unix_ms: u64,
    worker: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacenter: Option<u64>,
    sequence: u64,
}

/// Prints the parts of every ID; nothing when one of them is wrong.
///
/// # Errors
/// `Usage` naming the first text that is not an ID; `Output`.
pub(crate) fn run<W: Write>(args: &DecodeArgs, out: &mut Output<W>) -> Result<(), Failure> {
    let views = args.ids.iter().map(|id| view(id, &args.layout)).collect::<Result<Vec<_>, _>>()?;
    for (i, view) in views.iter().enumerate() {
        if args.json {
            out.json(view)?;
            continue;
        }
        if i > 0 {
            out.line("")?;
        }
        out.line(format_args!("id          {}", view.id))?;
        out.line(format_args!("time        {}", view.time))?;
        out.line(format_args!("unix ms     {}", view.unix_ms))?;
        out.line(format_args!("worker      {}", view.worker))?;
        if let Some(datacenter) = view.datacenter {
            out.line(format_args!("datacenter  {datacenter}"))?;
        }
        out.line(format_args!("sequence    {}", view.sequence))?;
    }
    Ok(())
}

fn view(text: &str, layout: &Layout) -> Result<View, Failure> {
    let wrong =
        |why: &str| Failure::Usage(format!("{text:?} is not an ID: {why}; give 0 to {}", i64::MAX));
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong("it is not a decimal number"));
    }
    if text.starts_with('-') {
        return Err(wrong("it is negative"));
    }
    let id: u64 = text.parse().map_err(|_| wrong("it is too large"))?;
    let Decoded { unix_ms, worker, datacenter, sequence } =
        layout.decode(id).map_err(|_| wrong("it is too large"))?;
    Ok(View { id, time: rfc3339(unix_ms), unix_ms, worker, datacenter, sequence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(ids: &[&str], layout: &str, json: bool) -> Result<String, Failure> {
        let args = DecodeArgs {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            layout: layout.parse().unwrap(),
            json,
        };
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        run(&args, &mut out)?;
        out.finish()?;
        drop(out);
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn an_id_is_printed_with_its_parts() {
        let id = ((1_600_000_000_000_u64 - 1_288_834_974_657) << 22 | 513 << 12 | 77).to_string();
        let text = printed(&[&id], "leaf", false).unwrap();
        assert!(text.contains("time        2020-09-13T12:26:40.000Z\n"), "{text}");
        assert!(text.contains("worker      513\n"), "{text}");
        assert!(!text.contains("datacenter"), "{text}");
        assert!(printed(&[&id], "twitter", false).unwrap().contains("datacenter  16\n"));
    }

    #[test]
    fn json_is_one_object_per_line() {
        let text = printed(&["0", "4095"], "leaf", true).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["sequence"], 4095);
        assert_eq!(lines[1]["unix_ms"], 1_288_834_974_657_u64);
    }

    #[test]
    fn what_is_not_an_id_is_named_and_nothing_is_printed() {
        for (wrong, why) in [
            ("abc", "decimal"),
            ("", "decimal"),
            ("+5", "decimal"),
            ("-5", "negative"),
            ("9223372036854775808", "too large"),
            ("99999999999999999999999", "too large"),
        ] {
            let error = printed(&["1", wrong], "leaf", false).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("{wrong:?}")) && text.contains(why), "{text}");
            assert_eq!(error.code(), 64);
        }
    }
}
