//! One pool: its claims, each a task beside the others, over one session of the registry.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::cgroup::Cgroup;
use super::messages::{BookRules, LendMoment, ResumedLoan};
use super::state::{PoolState, lock};
use super::user::LendingUser;
use crate::config::PoolRules;
use crate::environment::Environment;
use crate::state::worker_file::{SharedClaim, Standing, WorkerRecord};
use crate::worker::claim::instance::InstanceAddress;
use crate::worker::claim::registrar::RegistrarSettings;
use crate::worker::registry::{RegistryConnection, SharedRegistry};
use crate::worker::shell::{NONCE_CHARS, RegistrarShell, new_nonce};

pub(super) struct Pool {
    pub(super) state: Arc<PoolState>,
    pub(super) bits: u32,
    pub(super) connection: RegistryConnection,
    settings: RegistrarSettings,
    /// The name of this host, in the names of its claims.
    host: String,
    environment: Environment,
    stop: CancellationToken,
    /// Ends one claim each.
    stops: Mutex<HashMap<String, CancellationToken>>,
    /// The last look after loans without a borrower (ms since the boot).
    looked_ms: AtomicU64,
}

/// The shortest interval between two looks that borrowers cause (ms).
const AGAIN_MS: u64 = 100;

impl Pool {
    pub(super) fn new(
        rules: &PoolRules,
        shared: SharedRegistry,
        book: BookRules,
        host: String,
        environment: Environment,
    ) -> Self {
        let SharedRegistry { registry, rules: claim } = shared;
        let settings = RegistrarSettings {
            registry: registry.name(),
            rules: claim,
            layout: rules.layout(),
            max_worker: (1 << rules.bits) - 1,
        };
        let (name, words) = (rules.name.clone(), claim.words);
        let state = PoolState::new(name, words.name, book, environment.clone());
        Self {
            state: Arc::new(state),
            bits: rules.bits,
            connection: RegistryConnection::new(registry),
            settings,
            host,
            environment,
            stop: CancellationToken::new(),
            stops: Mutex::default(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// The name of a claim that is about to begin for a user.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(super) fn name_of(
        &self,
        account: u64,
        resumed: Option<&ResumedLoan>,
    ) -> std::io::Result<String> {
        match resumed {
            Some(resumed) => Ok(resumed.claim.clone()),
            None => Ok(self.prefix(account) + &new_nonce(&self.environment)?),
        }
    }

    /// Whether this host gives the user's claims such names.
    pub(super) fn is_own(&self, account: u64, claim: &str) -> bool {
        let random = claim.strip_prefix(&self.prefix(account));
        random.is_some_and(|random| {
            random.len() == NONCE_CHARS && random.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }

    fn prefix(&self, account: u64) -> String {
        format!("{}/{account}/", self.host)
    }

    /// Begins a claim with this name. The future runs it until it is ended.
    pub(super) fn begin(
        self: &Arc<Self>,
        claim: String,
        resumed: Option<ResumedLoan>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let stop = self.stop.child_token();
        lock(&self.stops).insert(claim.clone(), stop.clone());
        Arc::clone(self).run(claim, resumed, stop)
    }

    async fn run(
        self: Arc<Self>,
        claim: String,
        resumed: Option<ResumedLoan>,
        stop: CancellationToken,
    ) {
        let address = InstanceAddress {
            identity: claim.clone(),
            leaf_ip: self.host.clone(),
            leaf_port: "0".to_owned(),
            ip: self.host.clone(),
            port: 0,
        };
        let file = self.remembered(&claim, resumed);
        let user = LendingUser { state: Arc::clone(&self.state), claim: claim.clone() };
        let (settings, environment) = (self.settings.clone(), self.environment.clone());
        let connection = self.connection.clone().for_claim();
        // The name of the claim is that of its life too: nobody else has it, and the borrower, who comes
        // back with it, is the same one.
        let named = (address, claim.clone());
        let shell =
            RegistrarShell::new(settings, named, &file, user, environment, connection, stop);
        shell.run().await;
        lock(&self.stops).remove(&claim);
        self.state.book().ended(&claim);
    }

    /// What the borrower remembers of its claim, as a worker file would.
    fn remembered(&self, claim: &str, resumed: Option<ResumedLoan>) -> WorkerRecord {
        let Some(ResumedLoan { worker, limit_ms, left_ms, .. }) = resumed else {
            return WorkerRecord::fresh();
        };
        let now_ms = self.environment.boot_ms();
        let fence_after_ms = self.settings.rules.fence_after_ms;
        let passed_ms = fence_after_ms.saturating_sub(left_ms.min(fence_after_ms));
        let reported_ms = now_ms.saturating_sub(passed_ms);
        let shared = SharedClaim {
            registry: self.settings.registry.clone(),
            nonces: vec![claim.to_owned()],
            limit_ms: limit_ms.min(self.environment.unix_ms().saturating_add(fence_after_ms)),
            reported: Some((self.environment.boot_id(), reported_ms)),
            standing: Standing::Own,
        };
        WorkerRecord {
            worker: Some(worker),
            identity: claim.to_owned(),
            layout: self.settings.layout.clone(),
            ceiling_ms: self.environment.unix_ms(),
            shared: Some(shared),
        }
    }

    /// Looks after loans without a borrower, unless that was done just now: borrowers cause it.
    pub(super) fn look_again(&self, now: LendMoment) {
        if now.boot_ms.saturating_sub(self.looked_ms.load(Ordering::Relaxed)) >= AGAIN_MS {
            self.look(now);
        }
    }

    /// Looks after loans without a borrower.
    pub(super) fn look(&self, now: LendMoment) {
        self.looked_ms.store(now.boot_ms, Ordering::Relaxed);
        // The files of cgroups are read without the lock.
        let mut empty = self.state.book().adrift();
        empty.retain(Cgroup::is_empty);
        let ending = self.state.book().tick(now, |cgroup| empty.contains(cgroup));
        let stops = lock(&self.stops);
        ending.iter().filter_map(|claim| stops.get(claim)).for_each(CancellationToken::cancel);
    }

    /// Ends all claims: what nobody uses is given back.
    pub(super) fn stop(&self) {
        self.state.book().stop(self.state.now());
        self.stop.cancel();
    }
}
