//! The requests of one tag that wait, in order of arrival. Those that memory can serve are served
//! first come, first served; a larger one waits for a lease and does not block smaller ones. Plain
//! data.

use std::collections::VecDeque;
use std::time::Duration;

use crate::segment::messages::Ticket;

/// How many waiting requests are searched for one to serve. Searching more gains little, and a long
/// queue would cost each request a walk along it.
pub(super) const SEARCHED: usize = 4096;

#[derive(Debug)]
struct WaitingRequest {
    ticket: Ticket,
    count: u32,
    deadline: Duration,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct WaitingRequests {
    /// The sum of all counts in the queue. First, as each request looks at it.
    demand: u64,
    /// A lower bound of all counts in the queue.
    smallest: u32,
    queue: VecDeque<WaitingRequest>,
}

impl WaitingRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// IDs that all of them need.
    #[inline]
    pub(super) const fn demand(&self) -> u64 {
        self.demand
    }

    pub(super) fn push(&mut self, ticket: Ticket, count: u32, deadline: Duration) {
        self.smallest = if self.queue.is_empty() { count } else { self.smallest.min(count) };
        self.queue.push_back(WaitingRequest { ticket, count, deadline });
        self.demand += u64::from(count);
    }

    /// Whether a new request has to queue behind one of these. Requests for more than `memory` wait
    /// for the store and block nobody.
    pub(super) fn one_comes_first(&self, memory: u64) -> bool {
        self.searched_counts().any(|count| count <= memory) || self.queue.len() > SEARCHED
    }

    /// Takes out the first request for at most `memory` IDs, if it can be served from `ready` now.
    pub(super) fn next_to_serve(&mut self, memory: u64, ready: u64) -> Option<(Ticket, u32)> {
        // Each request that begins to wait leads here, and must not walk along the queue for
        // nothing.
        if ready < u64::from(self.smallest) {
            return None;
        }
        let Some(at) = self.searched_counts().position(|count| count <= memory) else {
            if self.queue.len() <= SEARCHED {
                self.smallest = self.queue.iter().map(|request| request.count).min().unwrap_or(0);
            }
            return None;
        };
        if u64::from(self.queue.get(at)?.count) > ready {
            return None;
        }
        let request = self.queue.remove(at)?;
        self.demand -= u64::from(request.count);
        Some((request.ticket, request.count))
    }

    /// How much of `memory` the requests that it can serve need.
    pub(super) fn servable(&self, memory: u64) -> u64 {
        self.searched_counts()
            .fold(0, |sum, count| if sum + count <= memory { sum + count } else { sum })
    }

    /// Takes out the request that arrived last.
    pub(super) fn pop_last(&mut self) -> Option<Ticket> {
        let request = self.queue.pop_back()?;
        self.demand -= u64::from(request.count);
        Some(request.ticket)
    }

    /// Takes out a request, if it still waits.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let at = self.queue.iter().position(|request| request.ticket == ticket);
        let Some(request) = at.and_then(|at| self.queue.remove(at)) else { return false };
        self.demand -= u64::from(request.count);
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.queue.iter().map(|request| request.deadline).min()
    }

    /// Takes out the requests whose deadline has passed. With each comes how many IDs it needs
    /// together with the requests before it that go on waiting.
    pub(super) fn take_expired(&mut self, now: Duration) -> Vec<(Ticket, u64)> {
        let mut expired = Vec::new();
        let mut before = 0;
        self.queue.retain(|request| {
            let needed = before + u64::from(request.count);
            let goes_on = request.deadline > now;
            if goes_on {
                before = needed;
            } else {
                expired.push((request.ticket, needed));
            }
            goes_on
        });
        self.demand = before;
        expired
    }

    fn searched_counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.queue.iter().take(SEARCHED).map(|request| u64::from(request.count))
    }
}
