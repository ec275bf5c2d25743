package leafd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a pool of IDs of one tag, or of snowflake IDs: the daemon leases ranges ahead of need, and calls take IDs
// from memory. Any number of goroutines may use it at once.
//
// Order: an ID that is taken after another one was returned, by any goroutine of the process, is higher, unless the
// daemon has switched to another store in between. Processes hold ranges of their own, so between them there is no
// order.
//
// Loss: what a pool holds when it is closed, or when the process ends, is lost: at most two chunks.
//
// Outage: a pool issues what it holds. After that, calls wait until their deadline and get the error of the last
// attempt to lease. Errors that do not pass by themselves, such as [CodeForbidden], are returned at once.
type Pool struct {
	client *Client
	// tag is empty for snowflake IDs.
	tag string
	// maxAge is how old an ID may be when it is taken; 0: any age.
	maxAge time.Duration

	// current is the range that IDs are taken from; nil if none is known to have any.
	current atomic.Pointer[lease]
	lost    atomic.Int64
	waits   atomic.Int64
	// asked has an element if somebody has asked the refiller to look.
	asked chan struct{}

	mu sync.Mutex
	// queue are the ranges that follow, in the order of issue.
	queue []*lease
	// queued counts the IDs in queue; retired those of all ranges that were current before.
	queued, retired int64
	// changed is closed and replaced whenever waiting callers have to look again.
	changed chan struct{}
	closed  bool
	// cancel ends the refiller and ended is closed when it has ended; both are nil before the first use.
	cancel context.CancelFunc
	ended  chan struct{}
	// failure is why the last attempt to lease failed; nil after one that did not.
	failure error
	// until is when the next attempt is due. Until then, an error that does not pass is every caller's.
	until           time.Time
	leased          int64
	refills, failed int64
	chunk           int64
	rate            float64
	plan            plan
}

// lease is a range of IDs. Taking the next one is an addition.
type lease struct {
	first int64
	count int64
	// born is when it was requested, on the clock that goes on during suspend.
	born time.Duration
	// next is the place of the next ID. It passes count when callers find nothing.
	next atomic.Int64
}

// taken counts the IDs that were taken.
func (l *lease) taken() int64 {
	if next := l.next.Load(); next < l.count {
		return next
	}
	return l.count
}

// PoolOption is an option of [Client.NewPool] and [Client.NewSnowflakePool].
type PoolOption func(*Pool) error

// WithMinChunk sets the size of the first and smallest chunk: 1 to 1,000,000 IDs, 100 by default.
func WithMinChunk(ids int) PoolOption {
	return func(p *Pool) error {
		p.plan.min = int64(ids)
		return checkChunk(ids)
	}
}

// WithMaxChunk sets the size of the largest chunk: 1 to 1,000,000 IDs, 1,000,000 by default. A pool never holds more
// than two of them. If the smallest chunk is larger, it becomes as small.
func WithMaxChunk(ids int) PoolOption {
	return func(p *Pool) error {
		p.plan.max = int64(ids)
		return checkChunk(ids)
	}
}

// WithMaxAge sets how old an ID may be when it is taken, from 10 ms to 24 h: 1 s by default for snowflake IDs, whose
// time would be wrong by that much, and unlimited for IDs of a tag. Older IDs are dropped.
func WithMaxAge(age time.Duration) PoolOption {
	return func(p *Pool) error {
		if age < shortestMaxAge {
			return invalidf("the maximum age is %v; it has to be %v or more", age, shortestMaxAge)
		}
		p.maxAge = cut(age)
		return nil
	}
}

func checkChunk(ids int) error {
	if ids < 1 || ids > maxMaxChunk {
		return invalidf("a chunk of %d IDs is out of range; use 1 to %d", ids, maxMaxChunk)
	}
	return nil
}

// NewPool makes a pool of IDs of a tag, which leases over the client's connection. It starts at its first use;
// [Pool.Close] ends it.
func (client *Client) NewPool(tag string, with ...PoolOption) (*Pool, error) {
	if err := checkTag(tag); err != nil {
		return nil, err
	}
	return client.newPool(tag, 0, with)
}

// NewSnowflakePool makes a pool of snowflake IDs; see [Client.NewPool].
func (client *Client) NewSnowflakePool(with ...PoolOption) (*Pool, error) {
	return client.newPool("", defaultMaxAge, with)
}

func (client *Client) newPool(tag string, maxAge time.Duration, with []PoolOption) (*Pool, error) {
	p := &Pool{
		client:  client,
		tag:     tag,
		maxAge:  maxAge,
		asked:   make(chan struct{}, 1),
		changed: make(chan struct{}),
		plan: plan{
			min:        defaultMinChunk,
			max:        maxMaxChunk,
			lasts:      chunkLasts,
			backoffMin: client.link.options.backoffMin,
			backoffMax: client.link.options.backoffMax,
		},
	}
	for _, option := range with {
		if err := option(p); err != nil {
			return nil, err
		}
	}
	if p.plan.min > p.plan.max {
		p.plan.min = p.plan.max
	}
	p.plan.chunk, p.chunk = p.plan.min, p.plan.min
	if lasts := p.maxAge / agePart; lasts > 0 && lasts < p.plan.lasts {
		p.plan.lasts = lasts
	}
	return p, nil
}

// TryNext takes the next ID if one is there, without waiting. If not, a refill is under way, and a later call may
// succeed.
func (p *Pool) TryNext() (int64, bool) {
	first, count := p.take(1)
	return first, count == 1
}

// Next takes the next ID, and waits for one until the deadline of the context or the client's timeout.
//
// Errors: those of [Client.Next]: the error of the last attempt to lease, if there was one.
func (p *Pool) Next(ctx context.Context) (int64, error) {
	if first, count := p.take(1); count == 1 {
		return first, nil
	}
	var id int64
	err := p.wait(ctx, func() bool {
		first, count := p.take(1)
		id = first
		return count == 1
	})
	return id, err
}

// NextMany takes count IDs, in the order of issue; those taken before an error are lost. A goroutine with a hot loop
// gets a range of its own this way. For errors see [Pool.Next].
func (p *Pool) NextMany(ctx context.Context, count int) (IDs, error) {
	if err := checkCount(count); err != nil {
		return IDs{}, err
	}
	var ids IDs
	err := p.wait(ctx, func() bool {
		for ids.count < count {
			first, taken := p.take(int64(count - ids.count))
			if taken == 0 {
				return false
			}
			ids.add(first, int(taken))
		}
		return true
	})
	if err != nil {
		return IDs{}, err
	}
	return ids, nil
}

// PoolStats are the counters of a pool since it was made. Each is exact by itself; while others use the pool, they may
// belong to slightly different moments.
type PoolStats struct {
	// Leased counts the IDs that the daemon leased: those issued, held and lost.
	Leased int64
	// Issued counts the IDs that callers got.
	Issued int64
	// Held is what an outage leaves: the IDs that callers can take now.
	Held int64
	// Lost counts the IDs that nobody gets, because they became too old.
	Lost int64
	// Refills counts the chunks that were leased.
	Refills int64
	// Failures counts the attempts to lease that failed.
	Failures int64
	// Waits counts the calls that had to wait for a refill.
	Waits int64
	// Chunk is the size of a chunk at present.
	Chunk int64
	// SecondsLeft is how long the IDs held last at the rate of the last chunk; 0 while no rate is known.
	SecondsLeft float64
	// Err is why the last attempt to lease failed; nil if it did not.
	Err error
}

// Stats returns the counters.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.level()
	lost := p.lost.Load()
	stats := PoolStats{
		Leased:   p.leased,
		Issued:   have.taken - lost,
		Held:     have.left,
		Lost:     lost,
		Refills:  p.refills,
		Failures: p.failed,
		Waits:    p.waits.Load(),
		Chunk:    p.chunk,
		Err:      p.failure,
	}
	if p.rate > 0 {
		stats.SecondsLeft = float64(have.left) / p.rate
	}
	return stats
}

// Close ends the pool: calls that wait, and later ones, get [ErrClosed]. What the pool holds is lost. The client stays
// open. The error is always nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.shut()
	cancel, ended := p.cancel, p.ended
	p.mu.Unlock()
	if cancel != nil {
		cancel()
		<-ended
	}
	return nil
}

// shut drops what the pool holds, and fails the calls that wait. The caller holds the lock.
func (p *Pool) shut() {
	if p.closed {
		return
	}
	p.closed = true
	p.retire()
	p.lost.Add(p.queued)
	p.retired += p.queued
	p.queue, p.queued = nil, 0
	p.wake()
}

// take takes up to count IDs in a row, and returns the first of them and how many. 0: nothing is there.
func (p *Pool) take(count int64) (first, taken int64) {
	if current := p.current.Load(); current != nil {
		if first, taken = p.takeFrom(current, count); taken > 0 {
			return first, taken
		}
	}
	return p.takeSlowly(count)
}

// takeFrom takes from a range, unless it is used up or too old. No two callers get the same place, and a range becomes
// current only when the one before is used up: that keeps IDs unique and in order.
func (p *Pool) takeFrom(from *lease, count int64) (first, taken int64) {
	if count > from.count {
		count = from.count
	}
	place := from.next.Add(count) - count
	taken = from.count - place
	if taken <= 0 {
		return 0, 0
	}
	if taken > count {
		taken = count
	}
	// After the IDs were taken: their age counts when the caller gets them.
	if p.isOld(from) {
		p.lost.Add(taken)
		return 0, 0
	}
	return from.first + place, taken
}

func (p *Pool) isOld(from *lease) bool {
	return p.maxAge > 0 && bootTime()-from.born > p.maxAge
}

// takeSlowly takes from the current range or from the next one that has any.
func (p *Pool) takeSlowly(count int64) (first, taken int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		current := p.current.Load()
		if current == nil && len(p.queue) == 0 {
			p.ask()
			return 0, 0
		}
		if current != nil {
			if first, taken = p.takeFrom(current, count); taken > 0 {
				if p.level().left <= p.chunk/2 {
					p.ask()
				}
				return first, taken
			}
			p.retire()
		}
		p.advance()
	}
}

// retire takes the current range out of use. What is left of it is lost. The caller holds the lock.
func (p *Pool) retire() {
	current := p.current.Load()
	if current == nil {
		return
	}
	if before := current.next.Swap(current.count); before < current.count {
		p.lost.Add(current.count - before)
	}
	p.retired += current.count
	p.current.Store(nil)
}

// advance makes the next range current. The caller holds the lock.
func (p *Pool) advance() {
	if len(p.queue) == 0 {
		return
	}
	next := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	p.queued -= next.count
	p.current.Store(next)
}

// level is what the pool holds. The caller holds the lock.
func (p *Pool) level() level {
	have := level{left: p.queued, taken: p.retired}
	if current := p.current.Load(); current != nil {
		taken := current.taken()
		have.left += current.count - taken
		have.taken += taken
	}
	return have
}

// ask makes the refiller look, and starts it if it does not run. The caller holds the lock.
func (p *Pool) ask() {
	if p.closed {
		return
	}
	if p.cancel == nil {
		ctx, cancel := context.WithCancel(p.client.link.ctx)
		p.cancel, p.ended = cancel, make(chan struct{})
		if !p.client.link.run(func() { p.refill(ctx) }) {
			close(p.ended)
			p.shut()
			return
		}
	}
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// wake tells every waiting caller to look again. The caller holds the lock.
func (p *Pool) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait tries take until it succeeds, and waits for refills in between.
func (p *Pool) wait(ctx context.Context, take func() bool) error {
	w := newWait(ctx, p.client.timeout)
	defer w.stop()
	for first := true; ; first = false {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		// After the look at changed: what is published later wakes this caller.
		if take() {
			return nil
		}
		if first {
			p.waits.Add(1)
		}
		if err := p.giveUp(w); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.over():
		case <-ctx.Done():
		}
	}
}

// giveUp returns the error for a caller that finds nothing, if it must not wait any longer.
func (p *Pool) giveUp(w *wait) error {
	p.mu.Lock()
	closed, failure, until := p.closed, p.failure, p.until
	p.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if failure != nil && !IsTemporary(failure) && time.Now().Before(until) {
		return failure
	}
	err := w.passed(p.client.link.isConnected())
	if err == nil {
		return nil
	}
	if _, timedOut := err.(*timeoutError); timedOut && failure != nil {
		return w.endedWith(failure)
	}
	return p.client.failure(w, p.request(1), err)
}

func (p *Pool) request(count int) *request {
	if p.tag == "" {
		return &request{name: "Snowflake", count: count, encode: encodeSnowflake}
	}
	return &request{name: "Segment", tag: p.tag, count: count, encode: encodeSegment}
}
