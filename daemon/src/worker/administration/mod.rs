//! What an operator sees of the worker IDs, and does with them: list, release.

mod shared;
mod status;

use leaf_client::wire::{ErrorCode, WireError, WorkerStatus};

pub(crate) use shared::SharedWorkers;

/// The worker IDs, as far as this instance's registry knows of them.
#[derive(Debug, Clone)]
pub(crate) enum Workers {
    /// The configuration numbers the hosts, so there is no list.
    Fixed,
    /// A registry that hosts share gives them.
    Shared(SharedWorkers),
}

impl Workers {
    /// At most `limit` worker IDs, ascending, from `from` on. Owners have at most
    /// [`leaf_client::wire::MAX_OWNER_CHARS`] characters and addresses
    /// [`leaf_client::wire::MAX_ADDRESS_CHARS`], so that a full page fits into an answer.
    ///
    /// # Errors
    /// When the registry keeps no list, or cannot be asked.
    pub(crate) async fn list(
        &self,
        from: u64,
        limit: usize,
    ) -> Result<Vec<WorkerStatus>, WireError> {
        match self {
            Self::Fixed => Err(not_configured()),
            Self::Shared(workers) => workers.list(from, limit).await,
        }
    }

    /// Makes `worker` free for anybody, on an operator's word that `owner` is gone for good. A second
    /// release changes nothing and is no error.
    ///
    /// # Errors
    /// When there is no such worker ID, another owner has it, or its owner is live; when the
    /// registry keeps no list, or cannot be asked.
    pub(crate) async fn release(
        &self,
        worker: u64,
        owner: &str,
    ) -> Result<WorkerStatus, WireError> {
        match self {
            Self::Fixed => Err(not_configured()),
            Self::Shared(workers) => workers.release(worker, owner).await,
        }
    }
}

fn not_configured() -> WireError {
    let text =
        "worker.registry is \"fixed\" or \"worker-node\": leafd keeps no list of worker IDs there";
    WireError::new(ErrorCode::NotConfigured, text)
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{
        MAX_ADDRESS_CHARS, MAX_OWNER_CHARS, MAX_RESPONSE_LEN, MAX_WORKERS_PER_PAGE, Reply,
        Response, WorkerState, decode_response, encode_response, split_frame,
    };

    use super::*;

    #[test]
    fn a_page_of_the_longest_owners_and_addresses_fits_into_an_answer() {
        let longest = WorkerStatus {
            worker: u64::MAX,
            owner: "🦀".repeat(MAX_OWNER_CHARS),
            address: "🦀".repeat(MAX_ADDRESS_CHARS),
            state: WorkerState::JavaLeaf,
            live: true,
            own: true,
            reported_unix_ms: u64::MAX,
            age_ms: u64::MAX,
            ceiling_unix_ms: u64::MAX,
            limit_unix_ms: Some(u64::MAX),
        };
        let page = Reply::Workers(vec![longest; MAX_WORKERS_PER_PAGE as usize]);
        let response = Response { id: u64::MAX, reply: page };
        let mut frame = Vec::new();
        encode_response(&response, &mut frame);
        let (body, _) = split_frame(&frame, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
    }

    #[tokio::test]
    async fn a_configuration_that_numbers_the_host_knows_no_other_worker_ids() {
        let listed = Workers::Fixed.list(0, 1).await.unwrap_err();
        let released = Workers::Fixed.release(0, "").await.unwrap_err();
        assert_eq!((listed.code(), &listed), (ErrorCode::NotConfigured, &released));
    }
}
