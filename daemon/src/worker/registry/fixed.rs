//! A worker ID that the configuration fixes: from which time on leafd may use it, from what the disk
//! remembers, or why not. A plain rule.

use leaf_client::Layout;

use crate::state::dir::WorkerPast;

/// The time (ms since 1970) from which IDs may be issued.
///
/// # Errors
/// When what the disk remembers cannot be trusted or belongs to other IDs. The text is for the operator.
pub(crate) fn start_at(past: &WorkerPast, layout: Layout) -> Result<u64, String> {
    match past {
        WorkerPast::Lost { reason } => Err(format!(
            "{reason}. It held the time up to which snowflake IDs may have been issued, and \
             without it they could come twice. When this host's clock is right, stop leafd, run \
             `leafd adopt`, and start it: IDs then begin a few seconds after now"
        )),
        WorkerPast::Known(record) => {
            let written = layout.to_string();
            if !record.layout.is_empty() && record.layout != written {
                return Err(format!(
                    "snowflake IDs were issued with the layout {}, and {written} is configured; \
                     IDs of two layouts can be equal. Set snowflake.layout back, or, when IDs of \
                     the old layout live nowhere any more, run `leafd adopt`",
                    record.layout
                ));
            }
            Ok(record.ceiling_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::worker_file::WorkerRecord;

    fn known(layout: &str, ceiling_ms: u64) -> WorkerPast {
        WorkerPast::Known(WorkerRecord {
            layout: layout.into(),
            ceiling_ms,
            ..WorkerRecord::fresh()
        })
    }

    #[test]
    fn ids_begin_at_the_ceiling() {
        let layout = Layout::LEAF.to_string();
        assert_eq!(start_at(&known("", 0), Layout::LEAF), Ok(0));
        assert_eq!(start_at(&known(&layout, 70), Layout::LEAF), Ok(70));
    }

    #[test]
    fn a_past_that_is_lost_or_of_another_layout_is_refused_with_the_remedy() {
        let lost = WorkerPast::Lost { reason: "worker.properties is missing".into() };
        for past in [lost, known("28/22/13@1463673600000/1000ms", 5)] {
            let error = start_at(&past, Layout::LEAF).unwrap_err();
            assert!(error.contains("leafd adopt"), "{error}");
        }
    }
}
