package leafd

import (
	"errors"
	"time"
)

const (
	defaultMinChunk = 100
	maxMaxChunk     = 1_000_000
	defaultMaxAge   = time.Second
	// shortestMaxAge: below it, a round trip could outdate a whole chunk.
	shortestMaxAge = 10 * time.Millisecond

	// chunkLasts is how long a chunk should last.
	chunkLasts = time.Second
	// agePart: a chunk of IDs that age lasts this part of their maximum age. It is prefetched at half, so its last ID
	// is taken when it is three quarters of this part old; the rest covers a slower rate.
	agePart = 2
	// growth is how much a chunk may grow from one lease to the next. From 100 IDs to a million it takes five.
	growth = 8
	// limitHolds is how long a limit that the daemon named counts. Quotas may be raised at a reload.
	limitHolds = time.Minute
)

// plan decides when a pool leases, and how much. It reads no clock and does no IO.
type plan struct {
	min, max               int64
	lasts                  time.Duration
	backoffMin, backoffMax time.Duration

	chunk int64
	// limit is the most IDs of one chunk before limitUntil, because of a quota.
	limit      int64
	limitUntil time.Time
	// last is when something was leased, and lastTaken what had been taken by then.
	last      time.Time
	lastTaken int64
	// rate is the IDs per second between the last two leases.
	rate float64
	// failures in a row. Then notBefore is when to try again, and passes says whether that may help although nobody
	// changes anything.
	failures  int
	notBefore time.Time
	passes    bool
}

// level is what a pool holds, and what callers took since the start or was lost.
type level struct{ left, taken int64 }

// due is how many IDs to lease now. If 0, at is when to look again, or zero: when somebody asks. asked says that
// somebody has asked since the last attempt.
func (p *plan) due(now time.Time, have level, asked bool) (count int64, at time.Time) {
	if have.left > p.chunk/2 {
		return 0, time.Time{}
	}
	if p.failures > 0 {
		if !p.passes && !asked {
			return 0, time.Time{}
		}
		if now.Before(p.notBefore) {
			return 0, p.notBefore
		}
	}
	// On top of at most half a chunk: the pool never holds more than two of the largest.
	p.chunk = p.nextChunk(now, have)
	return p.chunk, time.Time{}
}

// nextChunk is what was used since the last lease, as a rate, for as long as a chunk lasts.
func (p *plan) nextChunk(now time.Time, have level) int64 {
	chunk := p.min
	if !p.last.IsZero() {
		elapsed := now.Sub(p.last)
		if elapsed <= 0 {
			elapsed = 1
		}
		p.rate = float64(have.taken-p.lastTaken) / elapsed.Seconds()
		wanted := p.rate * p.lasts.Seconds()
		// Bounds first: a float beyond the range of an integer converts to anything.
		if wanted > float64(p.max) {
			wanted = float64(p.max)
		}
		chunk = clamp(int64(wanted), p.chunk/2, p.chunk*growth)
		chunk = clamp(chunk, p.min, p.max)
	}
	if now.Before(p.limitUntil) && chunk > p.limit {
		chunk = p.limit
	}
	return chunk
}

func clamp(value, low, high int64) int64 {
	if value < low {
		return low
	}
	if value > high {
		return high
	}
	return value
}

// leased notes that IDs arrived.
func (p *plan) leased(now time.Time, have level) {
	p.last, p.lastTaken = now, have.taken
	p.failures = 0
}

// failed notes that a request failed. jitter is in 0..1. It returns when the next attempt is due.
func (p *plan) failed(now time.Time, err error, jitter float64) time.Time {
	var refusal *RefusedError
	if errors.As(err, &refusal) {
		detail := int64(maxMaxChunk)
		if refusal.Detail < maxMaxChunk {
			detail = int64(refusal.Detail)
		}
		switch refusal.Code {
		case CodeQuotaExceeded:
			// A quarter, so that others under this quota get something, too.
			p.limit, p.limitUntil = atLeast(detail/4), now.Add(limitHolds)
		case CodeBadCount:
			// More at once than the layout has, or than a quota gives in a second.
			p.limit, p.limitUntil = atLeast(detail), now.Add(limitHolds)
			if detail < p.chunk {
				return now
			}
		}
	}
	pause := shorten(doubled(p.backoffMin, p.backoffMax, p.failures), jitter)
	if refusal != nil && pause < refusal.RetryAfter {
		pause = refusal.RetryAfter
	}
	p.failures++
	p.notBefore = now.Add(pause)
	p.passes = IsTemporary(err)
	return p.notBefore
}

func atLeast(count int64) int64 {
	if count < 1 {
		return 1
	}
	return count
}
