package leafd

import (
	"context"
	"time"
)

// refill is the pool's goroutine: it does what the plan says.
func (p *Pool) refill(ctx context.Context) {
	defer close(p.ended)
	// It also ends when the client is closed.
	defer func() {
		p.mu.Lock()
		p.shut()
		p.mu.Unlock()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	// Set once a caller has asked, until the next attempt.
	asked := false
	for {
		count, at := p.due(asked)
		if count > 0 {
			asked = false
			p.lease(ctx, count)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		var due <-chan time.Time
		if !at.IsZero() {
			if !timer.Stop() {
				select {
				case <-timer.C:
				default:
				}
			}
			timer.Reset(time.Until(at))
			due = timer.C
		}
		select {
		case <-p.asked:
			asked = true
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Pool) due(asked bool) (count int64, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.asked:
		asked = true
	default:
	}
	count, at = p.plan.due(time.Now(), p.level(), asked)
	p.chunk, p.rate = p.plan.chunk, p.plan.rate
	return count, at
}

// lease leases a chunk, by one request after the other: answers to requests in flight together may come in any order,
// and IDs must not. What one request brings counts even if the next one fails.
func (p *Pool) lease(ctx context.Context, count int64) {
	for first := true; count > 0 && ctx.Err() == nil; first = false {
		// Before the request: no ID of the answer is older.
		born := bootTime()
		ids, err := p.client.upTo(ctx, p.request(int(count)))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.noteFailure(err)
			return
		}
		count -= int64(ids.Len())
		p.publish(ids, born, first, count <= 0)
	}
}

// publish makes the IDs of an answer available. first and last say whether it is the first and the last of a chunk.
func (p *Pool) publish(ids IDs, born time.Duration, first, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if first {
		// When the IDs arrive: the time of the request belongs to the time in which the last chunk was used.
		p.plan.leased(time.Now(), p.level())
	}
	for _, run := range ids.runs {
		// A caller that comes to another range looks whether half of the chunk is used. An answer of one run may be the
		// whole chunk, so it becomes two ranges.
		half := 0
		if len(ids.runs) == 1 {
			half = run.Count / 2
		}
		if half > 0 {
			p.queue = append(p.queue, &lease{first: run.First, count: int64(half), born: born})
		}
		p.queue = append(p.queue, &lease{first: run.First + int64(half), count: int64(run.Count - half), born: born})
	}
	p.queued += int64(ids.count)
	p.leased += int64(ids.count)
	if last {
		p.refills++
	}
	p.failure = nil
	p.wake()
}

func (p *Pool) noteFailure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
	p.failure = err
	p.until = p.plan.failed(time.Now(), err, jitter())
	p.wake()
}

// upTo gets as many IDs as the request asks for, or as many as the daemon gives at once. It does not wait for a daemon
// that cannot be reached.
func (client *Client) upTo(ctx context.Context, r *request) (IDs, error) {
	w := newWait(ctx, client.timeout)
	defer w.stop()
	c, err := client.link.connection(w, true)
	if err != nil {
		return IDs{}, client.failure(w, r, err)
	}
	if r.count > c.maxCount {
		r.count = c.maxCount
	}
	reply, err := client.call(ctx, r, true)
	if err != nil {
		return IDs{}, err
	}
	return idsOf(reply, r.count)
}
