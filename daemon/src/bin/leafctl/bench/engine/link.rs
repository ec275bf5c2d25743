//! One connection as a state machine: bytes of answers in, bytes of requests out, and a window of
//! requests in flight. No socket and no clock; time comes in as an argument.

use std::io;
use std::time::Duration;

use leaf_client::wire::{
    Call, MAGIC, MAX_RESPONSE_LEN, Reply, Request, Response, Run, UNSOLICITED, VERSION, WireError,
    decode_response, encode_request, split_frame,
};

use super::meter::Meter;
use super::{Nanos, nanos};
use crate::bench::plan::{Frames, Plan};
use crate::exit::Failure;

/// Request ID of the greeting.
const HELLO: u64 = 1;

/// Bounds of the pause after an error, so that a failing daemon is not flooded with retries.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum Break {
    /// The engine reconnects.
    Lost(String),
    /// The run ends: reconnecting is useless.
    Fatal(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// Waits for the answer to the greeting.
    Greeting,
    Serving,
    /// The daemon said goodbye: it answers the requests in flight, and the link sends nothing new.
    Leaving,
}

/// A place in the window.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// ID of the request in flight; 0 when free.
    id: u64,
    sent_at: Nanos,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    state: LinkState,
    count: u32,
    /// The window. The lowest bits of a request's ID are its index here.
    slots: Vec<Slot>,
    slot_bits: u32,
    free: Vec<u64>,
    /// Counts requests. It is the upper bits of their IDs, so that no late answer matches a new
    /// request.
    generation: u64,
    frames: Frames,
    /// The bytes of `frames` from `written` to `filled` are still to be written.
    written: usize,
    filled: usize,
    /// The beginning of an answer whose end has not arrived.
    partial: Vec<u8>,
    paused_until: Nanos,
    /// When bytes were last sent or received.
    active_at: Nanos,
}

impl Link {
    pub(super) fn new(plan: &Plan) -> Self {
        let in_flight = plan.in_flight.max(1);
        let mut link = Self {
            state: LinkState::Greeting,
            count: plan.count,
            slots: vec![Slot::default(); in_flight as usize],
            slot_bits: in_flight.next_power_of_two().trailing_zeros(),
            free: Vec::with_capacity(in_flight as usize),
            generation: 0,
            frames: plan.requests(),
            written: 0,
            filled: 0,
            partial: Vec::new(),
            paused_until: 0,
            active_at: 0,
        };
        link.reset(0);
        link
    }

    /// The bytes to send first on a new connection.
    pub(super) fn hello() -> Vec<u8> {
        let mut hello = Vec::new();
        let call = Call::Hello { magic: MAGIC, version: VERSION };
        encode_request(&Request { id: HELLO, call }, &mut hello);
        hello
    }

    /// Forgets the connection and its requests in flight. A new connection begins with the
    /// greeting.
    pub(super) fn reset(&mut self, now: Nanos) {
        self.slots.fill(Slot::default());
        self.free.clear();
        self.free.extend(0..self.slots.len() as u64);
        self.state = LinkState::Greeting;
        (self.written, self.filled) = (0, 0);
        self.partial.clear();
        self.paused_until = 0;
        self.active_at = now;
    }

    /// Requests that await an answer.
    pub(super) fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Whether the link waits for answers and no byte has moved for `patience`.
    pub(super) fn is_stuck(&self, now: Nanos, patience: Duration) -> bool {
        let waits = self.state == LinkState::Greeting || self.in_flight() > 0;
        waits && now.saturating_sub(self.active_at) > nanos(patience)
    }

    /// Fills the window with new requests, if it may send now.
    #[inline]
    pub(super) fn refill(&mut self, now: Nanos) {
        if self.state != LinkState::Serving
            || self.written < self.filled
            || self.free.is_empty()
            || now < self.paused_until
        {
            return;
        }
        let Self { slots, free, generation, slot_bits, frames, .. } = self;
        self.filled = frames.number(free.drain(..).map(|place| {
            *generation += 1;
            let id = *generation << *slot_bits | place;
            if let Some(slot) = slots.get_mut(place as usize) {
                *slot = Slot { id, sent_at: now };
            }
            id
        }));
        self.written = 0;
        self.active_at = now;
    }

    /// The bytes to write next; may be empty.
    #[inline]
    pub(super) fn outgoing(&self) -> &[u8] {
        self.frames.bytes(self.written, self.filled)
    }

    /// Records that `len` of the outgoing bytes have been written.
    #[inline]
    pub(super) fn wrote(&mut self, len: usize) {
        self.written += len;
    }

    /// Processes bytes that were read at `now`.
    #[inline]
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        meter: &mut Meter,
    ) -> Result<(), Break> {
        self.active_at = now;
        let result = if self.partial.is_empty() {
            self.answers(bytes, now, meter).map(|rest| self.partial.extend_from_slice(rest))
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.answers(&joined, now, meter).map(|rest| self.partial.extend_from_slice(rest))
        };
        meter.settle(now);
        result
    }

    /// Processes whole answers, and returns the remaining bytes.
    #[inline]
    fn answers<'b>(
        &mut self,
        mut bytes: &'b [u8],
        now: Nanos,
        meter: &mut Meter,
    ) -> Result<&'b [u8], Break> {
        while let Some((body, rest)) =
            split_frame(bytes, MAX_RESPONSE_LEN).map_err(|error| damaged(error.to_string()))?
        {
            let Response { id, reply } =
                decode_response(body).map_err(|error| damaged(error.to_string()))?;
            match reply {
                Reply::Ids { first, more } if self.state != LinkState::Greeting => {
                    self.ids(id, first, &more, now, meter)?;
                }
                reply => self.other(id, reply, now, meter)?,
            }
            bytes = rest;
        }
        Ok(bytes)
    }

    #[inline]
    fn ids(
        &mut self,
        id: u64,
        first: Run,
        more: &[Run],
        now: Nanos,
        meter: &mut Meter,
    ) -> Result<(), Break> {
        let sent_at = self.release(id)?;
        meter.answer(sent_at, first.first, first.count, now);
        let mut ids = u64::from(first.count);
        for run in more {
            meter.more_ids(run.first, run.count);
            ids += u64::from(run.count);
        }
        if ids == u64::from(self.count) {
            return Ok(());
        }
        Err(damaged(format!("leafd answered with {ids} IDs instead of {}", self.count)))
    }

    /// Frees the slot of the request with this ID, and returns when it was sent.
    #[inline]
    fn release(&mut self, id: u64) -> Result<Nanos, Break> {
        let place = id & ((1 << self.slot_bits) - 1);
        match self.slots.get_mut(place as usize) {
            Some(slot) if slot.id == id && id != 0 => {
                slot.id = 0;
                self.free.push(place);
                Ok(slot.sent_at)
            }
            _ => Err(damaged(format!("leafd answered request {id}, which is not in flight"))),
        }
    }

    #[cold]
    fn other(&mut self, id: u64, reply: Reply, now: Nanos, meter: &mut Meter) -> Result<(), Break> {
        match (self.state, reply) {
            (LinkState::Greeting, Reply::Hello { max_count, max_in_flight, .. }) if id == HELLO => {
                self.check("--in-flight", self.slots.len() as u64, max_in_flight)?;
                self.check("--count", u64::from(self.count), max_count)?;
                self.state = LinkState::Serving;
                Ok(())
            }
            (_, Reply::Goodbye) => {
                self.state = LinkState::Leaving;
                Ok(())
            }
            (state, Reply::Error(error)) => {
                let code = error.code();
                let request = state != LinkState::Greeting && id != UNSOLICITED;
                if matches!(code.number(), 100..=199) || (!request && !code.is_temporary()) {
                    return Err(Break::Fatal(Failure::refused(&error)));
                }
                if request {
                    self.release(id)?;
                    self.pause(&error, now);
                    meter.error(error);
                    Ok(())
                } else {
                    let why = error.to_string();
                    meter.error(error);
                    Err(Break::Lost(why))
                }
            }
            _ => Err(damaged("leafd's answer does not belong to the call".to_owned())),
        }
    }

    fn check(&self, option: &str, wanted: u64, limit: u32) -> Result<(), Break> {
        if wanted <= u64::from(limit) {
            return Ok(());
        }
        Err(Break::Fatal(Failure::Usage(format!(
            "{option} {wanted} is above the {limit} that leafd allows on one connection"
        ))))
    }

    fn pause(&mut self, error: &WireError, now: Nanos) {
        let asked = Duration::from_millis(u64::from(error.retry_after_ms));
        self.paused_until = now + nanos(asked.clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }

    /// Until when there is nothing to send and no answer to wait for.
    pub(super) fn idle_until(&self, now: Nanos) -> Option<Nanos> {
        let idle = self.state == LinkState::Serving && self.in_flight() == 0;
        (idle && now < self.paused_until).then_some(self.paused_until)
    }
}

/// A connection that an IO error ended.
pub(super) fn lost(error: io::Error) -> Break {
    Break::Lost(error.to_string())
}

fn damaged(what: String) -> Break {
    Break::Fatal(Failure::Protocol(what))
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
