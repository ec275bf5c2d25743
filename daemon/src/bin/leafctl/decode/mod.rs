//! `leafctl decode`: reads IDs in any form, and splits snowflake IDs into their parts, by the layout from
//! the command line or else by leafd's. If leafd cannot be reached, the layout is a guess, and the output says so. With
//! `-`, the IDs come from standard input, and each is answered as it comes.

mod layouts;
mod reading;

use std::cell::RefCell;
use std::io::{Read, Write};

use leaf_client::form::public::KeyRing;
use leaf_client::{Decoded, Layout};
use leafd::cli::leafctl::{DaemonArgs, DecodeArgs};
use leafd::rfc3339::rfc3339;
use serde::Serialize;

use crate::connect;
use crate::exit::{ErrorForm, Failure};
use crate::keys::keys;
use crate::lines::Lines;
use crate::output::{Output, harmless};
use crate::public::PublicByLeafd;
use reading::{ReadingRules, TextReading};

/// Where the layout comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LayoutSource {
    /// `--layout`.
    Option,
    /// The layout of the IDs that the running leafd issues.
    Daemon,
    /// A guess: leafd could not be reached.
    Assumed,
}

impl LayoutSource {
    const fn words(self) -> &'static str {
        match self {
            Self::Option => "--layout",
            Self::Daemon => "leafd's",
            Self::Assumed => "assumed",
        }
    }
}

/// An ID and its parts, as `--json` prints them.
#[derive(Debug, PartialEq, Serialize)]
struct DecodedId {
    /// Text: most programs that read JSON round numbers above 2^53.
    id: String,
    /// What the text was, unless it was the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<String>,
    /// The day that the number is of: then it is of a tag, and has no parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    /// Forms that the text may have had instead, and the IDs that it stands for in these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    or: Vec<OtherForm>,
    #[serde(flatten)]
    parts: Option<IdParts>,
}

/// An ID that the text stands for in another form.
#[derive(Debug, PartialEq, Serialize)]
struct OtherForm {
    form: String,
    id: String,
}

/// The parts of a snowflake ID.
#[derive(Debug, PartialEq, Serialize)]
struct IdParts {
    time: String,
    unix_ms: u64,
    worker: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacenter: Option<u64>,
    sequence: u64,
    layout: String,
    layout_from: LayoutSource,
}

/// Prints the parts of every ID, or nothing if one of them is wrong.
///
/// # Errors
/// `Usage` quotes the first text that is not an ID; `Protocol` when leafctl does not know leafd's
/// layout; `Output`.
pub(crate) fn run<W: Write>(
    args: &DecodeArgs,
    daemon: &DaemonArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    if args.layouts {
        return layouts::print(args.json, out);
    }
    let ask = || layout_of(daemon);
    let leafd = by_leafd(args, daemon)?;
    let notes = &mut std::io::stderr();
    if args.ids == ["-"] {
        return stream(args, leafd.as_ref(), ask, Lines::of(std::io::stdin().lock()), out, notes);
    }
    print(args, leafd.as_ref(), ask, out, notes)
}

/// Has leafd read public IDs, if `--as` names them and there are no keys.
fn by_leafd(
    args: &DecodeArgs,
    daemon: &DaemonArgs,
) -> Result<Option<RefCell<PublicByLeafd>>, Failure> {
    let form = args.form.as_ref().filter(|_| args.keys.is_none());
    let Some(form) = form.and_then(|form| form.parse().ok()) else { return Ok(None) };
    let public = PublicByLeafd::of(&form, args.tag.as_deref(), daemon)?;
    Ok(public.map(RefCell::new))
}

/// The layout of the IDs that leafd issues, in leafd's notation.
fn layout_of(daemon: &DaemonArgs) -> Result<String, String> {
    let asked = connect::at_once(daemon, daemon.timeout()).and_then(|mut client| client.status());
    asked.map(|status| status.snowflake.layout).map_err(|error| error.to_string())
}

fn print<W: Write>(
    args: &DecodeArgs,
    leafd: Option<&RefCell<PublicByLeafd>>,
    ask: impl FnOnce() -> Result<String, String>,
    out: &mut Output<W>,
    notes: &mut impl Write,
) -> Result<(), Failure> {
    let keys = keys(args.keys.as_deref())?;
    let (layout, source) = layout(args, ask, notes)?;
    let rules = rules(args, keys.as_ref(), leafd);
    let ids = args.ids.iter().map(|text| decoded(rules, text, layout, source));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let mut told = false;
    for (i, (text, id)) in args.ids.iter().zip(&ids).enumerate() {
        show(id, args.json, i == 0, out)?;
        note_others(text, id, &mut told, notes);
    }
    Ok(())
}

/// Answers every line of `lines`. One that is not an ID gets a message with its number on `notes`,
/// and the others are decoded nevertheless.
fn stream<W: Write, R: Read>(
    args: &DecodeArgs,
    leafd: Option<&RefCell<PublicByLeafd>>,
    ask: impl FnOnce() -> Result<String, String>,
    mut lines: Lines<R>,
    out: &mut Output<W>,
    notes: &mut impl Write,
) -> Result<(), Failure> {
    let form = if args.json { ErrorForm::Json } else { ErrorForm::Text };
    let keys = keys(args.keys.as_deref())?;
    let (layout, source) = layout(args, ask, notes)?;
    let rules = rules(args, keys.as_ref(), leafd);
    let (mut right, mut wrong, mut told) = (0_u64, 0_u64, false);
    loop {
        if lines.is_drained() {
            // Whoever writes the next line may wait for this answer.
            out.finish()?;
        }
        let Some(line) = lines.next().map_err(Failure::Input)? else { break };
        if line.text.is_empty() {
            continue;
        }
        match decoded(rules, &line.text, layout, source) {
            Ok(decoded) => {
                show(&decoded, args.json, right == 0, out)?;
                note_others(&line.text, &decoded, &mut told, notes);
                right += 1;
            }
            Err(failure) => {
                // If stderr fails, the exit status still says it.
                let _ = writeln!(notes, "{}", failure.message(form, Some(line.number)));
                wrong += 1;
            }
        }
    }
    if wrong > 0 {
        let all = right + wrong;
        return Err(Failure::Usage(format!("{wrong} of {all} lines are not IDs")));
    }
    Ok(())
}

/// The layout to decode with.
fn layout(
    args: &DecodeArgs,
    ask: impl FnOnce() -> Result<String, String>,
    notes: &mut impl Write,
) -> Result<(Layout, LayoutSource), Failure> {
    if let Some(layout) = args.layout {
        return Ok((layout, LayoutSource::Option));
    }
    match ask() {
        Ok(text) => Ok((parse(&text)?, LayoutSource::Daemon)),
        Err(why) => {
            // Ignore a failing stderr: the result itself says that the layout is assumed.
            let _ = writeln!(
                notes,
                "leafctl: cannot ask leafd for its layout, so `leaf` is assumed; if the IDs \
                 have another layout, every part is wrong: pass it with --layout: {}",
                harmless(&why)
            );
            Ok((Layout::LEAF, LayoutSource::Assumed))
        }
    }
}

fn show<W: Write>(
    decoded: &DecodedId,
    json: bool,
    is_first: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    if json {
        return out.json(decoded);
    }
    if !is_first {
        out.line("")?;
    }
    out.line(format_args!("id          {}", decoded.id))?;
    for (name, value) in [("form", &decoded.form), ("fleet", &decoded.fleet), ("day", &decoded.day)]
    {
        if let Some(value) = value {
            out.line(format_args!("{name:12}{value}"))?;
        }
    }
    let Some(parts) = &decoded.parts else { return Ok(()) };
    out.line(format_args!("time        {}", parts.time))?;
    out.line(format_args!("unix ms     {}", parts.unix_ms))?;
    out.line(format_args!("worker      {}", parts.worker))?;
    if let Some(datacenter) = parts.datacenter {
        out.line(format_args!("datacenter  {datacenter}"))?;
    }
    out.line(format_args!("sequence    {}", parts.sequence))?;
    out.line(format_args!("layout      {} ({})", parts.layout, parts.layout_from.words()))
}

/// Says on `notes` in which other forms the text can be read. Once: a stream may have millions of such
/// texts, and JSON says it for each.
fn note_others(text: &str, decoded: &DecodedId, told: &mut bool, notes: &mut impl Write) {
    let Some(first) = decoded.or.first().filter(|_| !*told) else { return };
    *told = true;
    let others: Vec<_> =
        decoded.or.iter().map(|other| format!("{} for {}", other.form, other.id)).collect();
    let taken = decoded.form.as_deref().unwrap_or("decimal");
    // The result itself is complete without it.
    let _ = writeln!(
        notes,
        "leafctl: {text:?} is taken as {taken}, and could be {}; --as {} reads it so",
        others.join(" or "),
        first.form,
    );
}

pub(crate) fn parse(text: &str) -> Result<Layout, Failure> {
    text.parse().map_err(|_| {
        Failure::Protocol(format!(
            "leafd uses a layout that this leafctl does not know, {:?}; use the leafctl of leafd's \
             version, or pass a layout with --layout",
            harmless(text)
        ))
    })
}

fn rules<'a>(
    args: &'a DecodeArgs,
    keys: Option<&'a KeyRing>,
    leafd: Option<&'a RefCell<PublicByLeafd>>,
) -> ReadingRules<'a> {
    let (form, tag) = (args.form.as_deref(), args.tag.as_deref());
    ReadingRules { form, fleet: args.fleet, keys, tag, leafd }
}

fn decoded(
    rules: ReadingRules<'_>,
    text: &str,
    layout: Layout,
    layout_from: LayoutSource,
) -> Result<DecodedId, Failure> {
    let TextReading { reading, others } = rules.read(text, layout)?;
    let parts = match reading.day {
        Some(_) => None,
        None => Some(parts(text, reading.id, layout, layout_from)?),
    };
    Ok(DecodedId {
        id: reading.id.to_string(),
        form: Some(reading.form).filter(|form| form != "decimal"),
        fleet: reading.fleet.map(|fleet| fleet.to_string()),
        day: reading.day.map(|day| day.to_string()),
        or: others.into_iter().map(|(form, id)| OtherForm { form, id: id.to_string() }).collect(),
        parts,
    })
}

fn parts(
    text: &str,
    id: u64,
    layout: Layout,
    layout_from: LayoutSource,
) -> Result<IdParts, Failure> {
    let Decoded { unix_ms, worker, datacenter, sequence } = layout.decode(id).map_err(|error| {
        Failure::Usage(format!("{text:?} is no snowflake ID of the layout {layout}: {error}"))
    })?;
    let (time, layout) = (rfc3339(unix_ms), layout.to_string());
    Ok(IdParts { time, unix_ms, worker, datacenter, sequence, layout, layout_from })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(ids: &[&str], layout: &str, json: bool) -> Result<String, Failure> {
        let unasked = || panic!("leafctl asks leafd although --layout is given");
        asked(ids, Some(layout), json, unasked).map(|(text, _)| text)
    }

    /// The printed result, and the notes on stderr.
    fn asked(
        ids: &[&str],
        layout: Option<&str>,
        json: bool,
        ask: impl FnOnce() -> Result<String, String>,
    ) -> Result<(String, String), Failure> {
        let args = DecodeArgs {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            form: None,
            fleet: None,
            keys: None,
            tag: None,
            layout: layout.map(|layout| layout.parse().unwrap()),
            layouts: false,
            json,
        };
        let (mut bytes, mut notes) = (Vec::new(), Vec::new());
        let mut out = Output::to(&mut bytes);
        print(&args, None, ask, &mut out, &mut notes)?;
        out.finish()?;
        drop(out);
        Ok((String::from_utf8(bytes).unwrap(), String::from_utf8(notes).unwrap()))
    }

    #[test]
    fn without_an_option_leafctl_uses_leafds_layout() {
        let own = || Ok("31/20/12@1700000000000/1000ms".to_owned());
        let id = (77_u64 << 32 | 5 << 12 | 9).to_string();
        let (text, notes) = asked(&[&id], None, false, own).unwrap();
        assert!(text.contains("unix ms     1700000077000\nworker      5\n"), "{text}");
        assert!(text.ends_with("layout      31/20/12@1700000000000/1000ms (leafd's)\n"), "{text}");
        assert_eq!(notes, "");
        let (text, _) = asked(&[&id], None, true, own).unwrap();
        assert!(text.contains("\"layout_from\":\"daemon\""), "{text}");
        let text = printed(&[&id], "leaf", true).unwrap();
        assert!(text.contains("\"layout_from\":\"option\""), "{text}");
    }

    #[test]
    fn the_output_says_when_the_layout_is_only_assumed() {
        let away = || Err("no such file\x1b".to_owned());
        let (text, notes) = asked(&["1"], None, false, away).unwrap();
        assert!(text.contains("layout      41/10/12@1288834974657/1ms (assumed)\n"), "{text}");
        let said = ["`leaf` is assumed", "--layout", "no such file\\u{1b}"];
        assert!(said.iter().all(|said| notes.contains(said)), "{notes}");
        let (text, notes) = asked(&["1"], None, true, away).unwrap();
        assert!(text.contains("\"layout_from\":\"assumed\"") && !notes.is_empty(), "{text}");
    }

    #[test]
    fn a_layout_that_leafctl_does_not_know_is_an_error() {
        let error = asked(&["1"], None, false, || Ok("53 bits".to_owned())).unwrap_err();
        assert!(error.to_string().contains("53 bits") && error.code() == 76, "{error}");
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
        assert_eq!((&lines[1]["id"], &lines[1]["sequence"]), (&"4095".into(), &4095.into()));
        assert_eq!(lines[1]["unix_ms"], 1_288_834_974_657_u64);
    }

    #[test]
    fn every_line_of_a_stream_is_answered_and_a_wrong_one_is_named_by_its_number() {
        let streamed = |text: &str, json| {
            let layout = Some(Layout::LEAF);
            let args = DecodeArgs {
                ids: vec!["-".to_owned()],
                form: None,
                fleet: None,
                keys: None,
                tag: None,
                layout,
                layouts: false,
                json,
            };
            let (mut bytes, mut notes) = (Vec::new(), Vec::new());
            let mut out = Output::to(&mut bytes);
            let lines = Lines::of(text.as_bytes());
            let result = stream(&args, None, || panic!("unasked"), lines, &mut out, &mut notes);
            out.finish().unwrap();
            drop(out);
            (result, String::from_utf8(bytes).unwrap(), String::from_utf8(notes).unwrap())
        };
        let (result, text, notes) = streamed("4095\n\nabc\r\n-5\n0", false);
        assert_eq!(text.matches("id  ").count(), 2, "{text}");
        assert!(text.contains("\n\nid          0\n"), "{text}");
        let notes: Vec<_> = notes.lines().collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("leafctl: line 3: \"abc\" is not an ID"), "{notes:?}");
        assert!(notes[1].starts_with("leafctl: line 4: \"-5\" is not an ID"), "{notes:?}");
        let failure = result.unwrap_err();
        assert_eq!(
            (failure.to_string().as_str(), failure.code()),
            ("2 of 4 lines are not IDs", 64)
        );
        let (_, text, notes) = streamed("x\n1\n", true);
        let note: serde_json::Value = serde_json::from_str(&notes).unwrap();
        assert_eq!((&note["line"], &note["name"]), (&1.into(), &"Usage".into()));
        assert_eq!(text.lines().count(), 1);
        let (result, text, notes) = streamed("", false);
        assert!(result.is_ok() && text.is_empty() && notes.is_empty(), "{notes}");
    }

    #[test]
    fn an_id_is_read_in_any_form_and_the_form_is_named() {
        let id = 2_124_029_785_372_885_063_u64;
        for (text, form) in [
            ("2Wu4tUJSwrv", "base62"),
            ("ord_2Wu4tUJSwrv", "ord_base62"),
            ("01a1fcd4-5c07-7000-8000-474be1f0a37c", "uuid7"),
        ] {
            let printed = printed(&[text], "leaf", false).unwrap();
            assert!(
                printed.starts_with(&format!("id          {id}\nform        {form}\n")),
                "{printed}"
            );
            assert!(printed.contains("sequence    71\n"), "{printed}");
        }
        let text = printed(&["01a1fcd4-5c07-7000-8000-474be1f0a37c"], "leaf", true).unwrap();
        assert!(text.contains("\"form\":\"uuid7\",\"fleet\":\"4be1f0a37c\","), "{text}");
        let text = printed(&["20261122-000017"], "leaf", false).unwrap();
        assert_eq!(text, "id          17\nform        dated\nday         20261122\n");
    }

    #[test]
    fn a_text_with_several_forms_is_taken_as_the_likeliest_and_the_others_are_named() {
        let unasked = || panic!("leafctl asks leafd although --layout is given");
        let (text, notes) = asked(&["10000000000"], Some("leaf"), true, unasked).unwrap();
        let other = "\"or\":[{\"form\":\"base62\",\"id\":\"839299365868340224\"}]";
        assert!(text.starts_with("{\"id\":\"10000000000\",") && text.contains(other), "{text}");
        assert!(notes.contains("is taken as decimal") && notes.contains("--as base62"), "{notes}");
        let (_, notes) = asked(&["10000000000"; 3], Some("leaf"), false, unasked).unwrap();
        assert_eq!(notes.lines().count(), 1, "{notes}");
    }

    #[test]
    fn with_a_form_nothing_else_is_read() {
        let read = |text: &str, form: &'static str| {
            let rules =
                ReadingRules { form: Some(form), fleet: None, keys: None, tag: None, leafd: None };
            let read = rules.read(text, Layout::LEAF);
            read.map(|read| read.reading.id).map_err(|failure| failure.to_string())
        };
        assert_eq!(read("10000000000", "base62"), Ok(839_299_365_868_340_224));
        assert_eq!(read("10000000000", "decimal"), Ok(10_000_000_000));
        assert_eq!(read("00000017", "padded8"), Ok(17));
        assert_eq!(read("20261122-000017", "dated@+08:00"), Ok(17));
        assert_eq!(
            read("01a1fcd4-5c07-7000-8000-474be1f0a37c", "uuid7").map(|id| id & 4095),
            Ok(71)
        );
        for (text, form, said) in [
            ("17", "base62", "\"17\" is not an ID in the form base62: 2 characters instead of 11"),
            ("17", "dated", "no date"),
            ("17", "hex", "there is no form \"hex\""),
            ("01a1fcd4-5c07-7000-8000-474be1f0a37c", "uuid1", "version 7, not 1"),
            ("01a1fcd4-5c07-5000-8000-474be1f0a37c", "uuid5", "hash"),
        ] {
            let error = read(text, form).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let theirs = ReadingRules {
            form: None,
            fleet: Some("0000000001".parse().unwrap()),
            keys: None,
            tag: None,
            leafd: None,
        };
        let error = theirs.read("01a1fcd4-5c07-7000-8000-474be1f0a37c", Layout::LEAF).unwrap_err();
        assert!(error.to_string().contains("another installation"), "{error}");
    }

    #[test]
    fn the_layouts_are_listed_with_their_ends() {
        let list = |json| crate::output::tests::printed(|out| layouts::print(json, out));
        let text = list(false);
        for part in
            ["sonyflake", "65,536", "25,600", "2080-07-10", "baidu", "2024-11-20", "2069-07-21"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let first = list(true).lines().next().map(str::to_owned).unwrap_or_default();
        let first: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!((&first["name"], &first["workers"]), (&"leaf".into(), &1024.into()));
    }

    #[test]
    fn an_error_quotes_what_is_not_an_id_and_nothing_is_printed() {
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
