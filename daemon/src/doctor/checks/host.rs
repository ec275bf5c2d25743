//! The host: open files and the clock.

use crate::doctor::facts::{ClockFacts, Facts, Seen};
use crate::doctor::finding::{Check, Finding};

/// From this share of a limit on, in percent, little is left.
const NEARLY: u64 = 80;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    open_files(facts, out);
    clock(facts, out);
}

fn is_nearly(used: u64, of: u64) -> bool {
    used.saturating_mul(100) >= of.saturating_mul(NEARLY)
}

fn open_files(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::OpenFiles;
    let mut is_fine = true;
    if let Some((used, most)) = facts.host.all_files.filter(|(used, most)| is_nearly(*used, *most))
    {
        is_fine = false;
        out.push(
            Finding::warn(check, "the whole host is nearly out of open files")
                .because(format!("{used} of {most} (/proc/sys/fs/file-nr)."))
                .remedy("Find who opens them (lsof), or raise fs.file-max with sysctl."),
        );
    }
    let connections = facts.config().map(|config| config.socket.max_connections as u64);
    if let (Some(status), Some(most)) = (facts.status(), connections)
        && is_nearly(status.connections.into(), most)
    {
        is_fine = false;
        out.push(
            Finding::warn(check, "leafd is nearly out of connections")
                .because(format!("{} of {most} (socket.max-connections).", status.connections))
                .remedy(
                    "Raise socket.max-connections, or limit users with quota.max-connections. Clients \
                     should share one connection.",
                ),
        );
    }
    let (Some(process), Some(connections)) = (&facts.host.process, connections) else {
        if is_fine && facts.status().is_some() {
            out.push(Finding::unknown(check, "cannot see leafd's limit of open files").because(
                "Its process is not visible from here, or this user may not read the configuration.",
            ));
        }
        return;
    };
    let needed = connections.saturating_add(facts.other_descriptors);
    match process.most_files.filter(|most| *most < needed) {
        Some(most) => out.push(
            Finding::warn(check, "leafd may open too few files")
                .because(format!(
                    "{connections} connections (socket.max-connections) need {needed} open files, and \
                     leafd's hard limit is {most}."
                ))
                .remedy(format!(
                    "Set LimitNOFILE={needed} in the unit (ulimit -Hn by hand), or lower \
                     socket.max-connections."
                )),
        ),
        None if is_fine => {
            let most = process.most_files.map_or("no limit".to_owned(), |most| most.to_string());
            let open = process.open_files.map_or(String::new(), |open| format!(", {open} open"));
            out.push(
                Finding::ok(check, "leafd may open enough files")
                    .because(format!("Needed {needed}, limit {most}{open}.")),
            );
        }
        None => {}
    }
}

fn clock(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Clock;
    let offset = facts.status().and_then(|status| status.snowflake.clock_offset_ms);
    let most = facts.config().map(|config| config.worker.max_clock_offset.as_millis());
    if let (Some(offset), Some(most)) = (offset, most)
        && u128::from(offset.unsigned_abs()) > most / 2
    {
        out.push(
            Finding::warn(check, "the clock differs from the other hosts' clocks")
                .because(format!(
                    "By {offset} ms at the last check; above {most} ms (worker.max-clock-offset) leafd \
                     does not begin to issue snowflake IDs."
                ))
                .remedy("Synchronise this host's clock (chronyc tracking, timedatectl)."),
        );
        return;
    }
    let needs_time = facts.wants_snowflakes() != Some(false);
    out.push(match &facts.host.clock {
        Seen::As(ClockFacts::Synchronised) => Finding::ok(check, "the clock is synchronised"),
        Seen::As(ClockFacts::Free) if needs_time => Finding::warn(
            check,
            "the kernel's clock is not synchronised",
        )
        .because(
            "Snowflake IDs stop while the clock is behind the times already used. chrony counts \
                     only with rtcsync in its configuration.",
        )
        .remedy("Install and start chrony or systemd-timesyncd; see `timedatectl`."),
        Seen::As(ClockFacts::Free) => {
            Finding::note(check, "the kernel's clock is not synchronised")
                .because("Segment IDs do not need it.")
        }
        Seen::Not(why) => Finding::unknown(check, "cannot see whether the clock is synchronised")
            .because(format!("{why}. In a container, look at the host."))
            .remedy("On the host: `timedatectl`, `chronyc tracking`."),
        Seen::Nothing => return,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use crate::doctor::checks::sample::{config, healthy, of, running};
    use crate::doctor::facts::ProcessFacts;

    #[test]
    fn too_few_open_files_for_the_connections_are_a_warning() {
        let mut facts = healthy();
        facts.other_descriptors = 320;
        let process = |most_files| ProcessFacts { uid: 0, most_files, open_files: Some(9) };
        for (most, level) in
            [(Some(16_703), Level::Warn), (Some(16_704), Level::Ok), (None, Level::Ok)]
        {
            facts.host.process = Some(process(most));
            let found = of(&facts, Check::OpenFiles);
            assert_eq!(found.level, level, "{most:?}");
            assert!(level == Level::Ok || found.remedy.contains("LimitNOFILE=16704"), "{found:?}");
        }
        facts.host.process = None;
        assert_eq!(of(&facts, Check::OpenFiles).level, Level::Unknown);
    }

    #[test]
    fn a_host_or_a_leafd_that_is_nearly_full_is_a_warning() {
        let mut facts = healthy();
        facts.host.all_files = Some((800, 1000));
        assert!(of(&facts, Check::OpenFiles).title.contains("whole host"));
        facts.host.all_files = Some((799, 1000));
        assert_eq!(of(&facts, Check::OpenFiles).level, Level::Ok);
        running(&mut facts).connections = 13_108;
        assert!(of(&facts, Check::OpenFiles).title.contains("out of connections"));
    }

    #[test]
    fn a_free_clock_matters_to_snowflakes_alone() {
        let mut facts = healthy();
        facts.host.clock = Seen::As(ClockFacts::Free);
        assert_eq!(of(&facts, Check::Clock).level, Level::Warn);
        facts.daemon = crate::doctor::DaemonFacts::Down(String::new());
        facts.configuration = config("[snowflake]\nenabled = false");
        assert_eq!(of(&facts, Check::Clock).level, Level::Note);
        facts.host.clock = Seen::Not("EPERM".to_owned());
        assert_eq!(of(&facts, Check::Clock).level, Level::Unknown);
    }

    #[test]
    fn a_clock_that_differs_from_the_fleets_is_a_warning() {
        let mut facts = healthy();
        for (offset, level) in [(-2501, Level::Warn), (2500, Level::Ok)] {
            running(&mut facts).snowflake.clock_offset_ms = Some(offset);
            assert_eq!(of(&facts, Check::Clock).level, level);
        }
    }
}
