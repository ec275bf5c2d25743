package leafd

import (
	"context"
	"errors"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leafd.invalid/leafd/wire"
)

func (f *fake) pool(tag string, with ...PoolOption) *Pool {
	f.t.Helper()
	return f.poolOf(f.client(), tag, with...)
}

func (f *fake) poolOf(client *Client, tag string, with ...PoolOption) *Pool {
	f.t.Helper()
	pool, err := client.NewPool(tag, with...)
	if tag == "" {
		pool, err = client.NewSnowflakePool(with...)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = pool.Close() })
	return pool
}

func mustTake(t *testing.T, pool *Pool) int64 {
	t.Helper()
	id, err := pool.Next(background)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sums checks that every leased ID is accounted for.
func sums(t *testing.T, pool *Pool) PoolStats {
	t.Helper()
	stats := pool.Stats()
	if stats.Leased != stats.Issued+stats.Held+stats.Lost {
		t.Errorf("IDs are missing: %+v", stats)
	}
	return stats
}

func TestAPoolIssuesEveryIDOnceAndInOrder(t *testing.T) {
	noLeak(t)
	f := startFake(t, func(p *peer) {
		if p.hello(1000, 64) {
			p.serve()
		}
	})
	pool := f.pool("t")
	const goroutines, each = 8, 20_000
	// highest is the highest ID that was returned before a call began.
	var highest atomic.Int64
	got := make([][]int64, goroutines)
	var all sync.WaitGroup
	for i := range got {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			for len(got[i]) < each {
				before := highest.Load()
				var ids []int64
				if len(got[i])%10 == 0 {
					many, err := pool.NextMany(background, 7)
					if err != nil {
						t.Error(err)
						return
					}
					ids = many.Slice()
				} else {
					id, err := pool.Next(background)
					if err != nil {
						t.Error(err)
						return
					}
					ids = []int64{id}
				}
				for _, id := range ids {
					if id <= before {
						t.Errorf("%d was taken after %d was returned", id, before)
						return
					}
					before = id
				}
				got[i] = append(got[i], ids...)
				for last := ids[len(ids)-1]; ; {
					seen := highest.Load()
					if seen >= last || highest.CompareAndSwap(seen, last) {
						break
					}
				}
			}
		}()
	}
	all.Wait()
	var every []int64
	for _, ids := range got {
		every = append(every, ids...)
	}
	sort.Slice(every, func(i, j int) bool { return every[i] < every[j] })
	for i, id := range every {
		if id != int64(i+1) {
			t.Fatalf("ID %d at place %d", id, i)
		}
	}
	stats := sums(t, pool)
	if stats.Issued != int64(len(every)) || stats.Lost != 0 || stats.Refills < 3 || stats.Chunk <= 100 {
		t.Errorf("%+v", stats)
	}
	if f.accepted.Load() != 1 {
		t.Error("it shares the client's connection")
	}
	_ = pool.Close()
	if stats := sums(t, pool); stats.Held != 0 || stats.Lost == 0 {
		t.Errorf("%+v", stats)
	}
	_, err := pool.Next(background)
	mustFail(t, err, ErrClosed)
	if id, ok := pool.TryNext(); ok {
		t.Error(id)
	}
}

func TestAPoolIsRefilledInTheBackgroundAtHalfAChunk(t *testing.T) {
	f := startFake(t, normal)
	pool := f.pool("t", WithMaxChunk(100))
	if id, ok := pool.TryNext(); ok {
		t.Fatal(id)
	}
	mustTake(t, pool)
	for i := 0; i < 49; i++ {
		mustTake(t, pool)
	}
	if stats := sums(t, pool); stats.Held != 50 || stats.Refills != 1 {
		t.Fatalf("%+v", stats)
	}
	mustTake(t, pool)
	for i := 0; pool.Stats().Refills < 2; i++ {
		if i > 1000 {
			t.Fatal("no refill")
		}
		time.Sleep(time.Millisecond)
	}
	if stats := sums(t, pool); stats.Held != 149 || stats.SecondsLeft <= 0 {
		t.Fatalf("%+v", stats)
	}
}

func TestAnOutageLeavesWhatThePoolHolds(t *testing.T) {
	noLeak(t)
	f := startFake(t, normal)
	client := f.client(WithTimeout(time.Second), WithBackoff(5*time.Millisecond, 20*time.Millisecond))
	pool := f.poolOf(client, "t")
	mustTake(t, pool)
	f.stop()
	_ = os.Remove(f.path)
	for i := 0; i < 99; i++ {
		mustTake(t, pool)
	}
	within(t, 990*time.Millisecond, func() {
		_, err := pool.Next(background)
		mustFail(t, err, ErrUnavailable)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("it was not the context")
		}
	})
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := pool.Next(ctx)
	mustFail(t, err, ErrUnavailable)
	mustFail(t, err, context.DeadlineExceeded)
	if stats := sums(t, pool); stats.Failures == 0 || stats.Held != 0 || stats.Err == nil || stats.Waits < 2 {
		t.Errorf("%+v", stats)
	}
	time.AfterFunc(50*time.Millisecond, f.listen)
	id, err := pool.NextMany(background, 150)
	if err != nil || id.First() < 101 {
		t.Fatal(id, err)
	}
	if stats := sums(t, pool); stats.Err != nil {
		t.Error(stats.Err)
	}
}

func TestAPoolOfASilentDaemonEndsAtTheDeadline(t *testing.T) {
	noLeak(t)
	for _, test := range []struct {
		script func(p *peer)
		kind   error
	}{
		{func(p *peer) { p.wait() }, ErrUnavailable},
		{func(p *peer) { p.hello(9, 9); p.wait() }, ErrDeadline},
	} {
		pool := startFake(t, test.script).pool("t")
		ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
		within(t, 495*time.Millisecond, func() {
			_, err := pool.Next(ctx)
			mustFail(t, err, test.kind)
			mustFail(t, err, context.DeadlineExceeded)
		})
		cancel()
		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(30*time.Millisecond, cancel)
		_, err := pool.Next(ctx)
		mustFail(t, err, context.Canceled)
	}
}

func TestAnErrorThatDoesNotPassIsReturnedAtOnce(t *testing.T) {
	var requests atomic.Int64
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		for r, ok := p.read(); ok; r, ok = p.read() {
			requests.Add(1)
			p.send(errorFrame(r.id, CodeUnknownTag, 0, 0))
		}
	})
	pool := f.pool("t")
	within(t, 0, func() {
		for i := 0; i < 20; i++ {
			_, err := pool.Next(background)
			mustFail(t, err, CodeUnknownTag)
		}
	})
	if requests.Load() > 20 {
		t.Error(requests.Load())
	}
}

func TestLimitsOfTheDaemonMakeSmallerLeases(t *testing.T) {
	var counts sync.Map
	f := startFake(t, func(p *peer) {
		p.hello(30, 64)
		for r, ok := p.read(); ok; r, ok = p.read() {
			counts.Store(r.count, true)
			if r.count > 20 {
				p.send(errorFrame(r.id, CodeBadCount, 0, 20))
				continue
			}
			p.send(p.answer(r))
		}
	})
	pool := f.pool("t")
	within(t, 0, func() {
		if ids, err := pool.NextMany(background, 500); err != nil || ids.Len() != 500 || len(ids.Runs()) != 1 {
			t.Fatal(ids, err)
		}
	})
	counts.Range(func(count, _ any) bool {
		if count.(uint32) > 30 {
			t.Errorf("%d is above the daemon's limit", count)
		}
		return true
	})
}

func TestIDsThatBecameTooOldAreDropped(t *testing.T) {
	f := startFake(t, normal)
	pool := f.pool("", WithMaxAge(300*time.Millisecond))
	first := mustTake(t, pool)
	time.Sleep(350 * time.Millisecond)
	if id, ok := pool.TryNext(); ok {
		t.Fatalf("%d is too old", id)
	}
	if id := mustTake(t, pool); id <= first+98 {
		t.Fatal(id)
	}
	if stats := sums(t, pool); stats.Issued != 2 || stats.Lost != 99 {
		t.Errorf("%+v", stats)
	}
	time.Sleep(350 * time.Millisecond)
	if ids, err := pool.NextMany(background, 150); err != nil || ids.Len() != 150 || ids.First() < first+198 {
		t.Fatal(ids, err)
	}
	sums(t, pool)
}

func TestASlowAnswerAges(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		for n := 0; ; n++ {
			r, ok := p.read()
			if !ok {
				return
			}
			if n == 0 {
				time.Sleep(80 * time.Millisecond)
			}
			p.send(p.answer(r))
		}
	})
	pool := f.pool("", WithMaxAge(50*time.Millisecond))
	if id := mustTake(t, pool); id <= 100 {
		t.Fatal(id)
	}
}

func TestTheHighestIDsCanBeTaken(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		r, _ := p.read()
		p.send(idsFrame(r.id, wire.Run{First: 1<<63 - 100, Count: 100}))
		p.wait()
	})
	ids, err := f.pool("t").NextMany(background, 100)
	if all := ids.Slice(); err != nil || len(all) != 100 || all[99] != 1<<63-1 {
		t.Fatal(all, err)
	}
}

func TestInvalidPoolOptionsAreRefused(t *testing.T) {
	client := startFake(t, normal).client()
	for _, option := range []PoolOption{WithMinChunk(0), WithMinChunk(1_000_001), WithMaxChunk(0), WithMaxAge(1)} {
		_, err := client.NewPool("t", option)
		mustFail(t, err, ErrInvalid)
	}
	_, err := (&fake{t: t}).poolOf(client, "t").NextMany(background, 0)
	mustFail(t, err, ErrInvalid)
}

// bench is a plan whose daemon answers at once.
type bench struct {
	*testing.T
	plan
	now  time.Time
	have level
}

func newBench(t *testing.T, min int64) *bench {
	return &bench{T: t, now: time.Now(), plan: plan{min: min, max: maxMaxChunk, lasts: time.Second, chunk: min,
		backoffMin: 5 * time.Millisecond, backoffMax: 500 * time.Millisecond}}
}

func (b *bench) lease() int64 {
	b.Helper()
	count, at := b.due(b.now, b.have, true)
	if count == 0 {
		b.Fatal("nothing is due before", at)
	}
	b.leased(b.now, b.have)
	b.have.left += count
	return count
}

func (b *bench) useUp(count int64, during time.Duration) {
	b.have.left -= count
	b.have.taken += count
	b.now = b.now.Add(during)
}

func TestAChunkLastsAboutASecondAtTheRateOfTheLastOne(t *testing.T) {
	b := newBench(t, 100)
	var sizes []int64
	for i := 0; i < 9; i++ {
		sizes = append(sizes, b.lease())
		used := b.have.left - b.chunk/2
		b.useUp(used, time.Duration(used)*time.Second/10_000)
	}
	if sizes[0] != 100 || sizes[1] != 800 || sizes[2] != 6400 || sizes[8] < 9_999 || sizes[8] > 10_001 {
		t.Error(sizes)
	}
}

func TestTheFastestUserGetsTheLargestChunkAfterFiveLeasesAndASlowOneTheSmallest(t *testing.T) {
	b := newBench(t, 100)
	want := []int64{100, 800, 6_400, 51_200, 409_600, maxMaxChunk}
	for _, size := range want {
		if got := b.lease(); got != size {
			t.Error(got, size)
		}
		b.useUp(b.have.left, time.Millisecond)
	}
	size := int64(0)
	for i := 0; i < 16; i++ {
		size = b.lease()
		b.useUp(b.have.left, time.Hour)
	}
	if size != 100 {
		t.Error(size)
	}
}

func TestAQuotaIsLearnedAndForgottenAfterAMinute(t *testing.T) {
	b := newBench(t, 250_000)
	due := func(want int64) {
		t.Helper()
		if got, _ := b.due(b.now, b.have, true); got != want {
			t.Errorf("%d, not %d", got, want)
		}
	}
	due(250_000)
	if at := b.failed(b.now, &RefusedError{Code: CodeBadCount, Detail: 5_000}, 0); !at.Equal(b.now) {
		t.Error("it has to be tried again at once")
	}
	due(5_000)
	b.now = b.now.Add(limitHolds)
	due(250_000)
	// A limit that is no lower is no reason to try again at once.
	if at := b.failed(b.now, &RefusedError{Code: CodeBadCount, Detail: 1 << 63}, 0); at.Equal(b.now) {
		t.Error("it must not be tried again at once")
	}
	b.failures = 0
	err := &RefusedError{Code: CodeQuotaExceeded, Detail: 2_000, RetryAfter: 700 * time.Millisecond}
	if at := b.failed(b.now, err, 0); at.Sub(b.now) != 700*time.Millisecond {
		t.Error(at.Sub(b.now))
	}
	due(0)
	b.now = b.now.Add(700 * time.Millisecond)
	due(500)
}

func TestFailuresAreTriedAgainWithPausesThatDouble(t *testing.T) {
	b := newBench(t, 100)
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 500, 500} {
		at := b.failed(b.now, &RefusedError{Code: CodeStoreUnavailable}, 0)
		if at.Sub(b.now) != pause*time.Millisecond {
			t.Error(at.Sub(b.now), pause)
		}
		if count, next := b.due(b.now, b.have, false); count != 0 || !next.Equal(at) {
			t.Error(count, next)
		}
		b.now = at
		if count, _ := b.due(b.now, b.have, false); count != 100 {
			t.Error(count)
		}
	}
	// An error that does not pass is tried again only if somebody asks.
	b.now = b.failed(b.now, &RefusedError{Code: CodeForbidden}, 0)
	if count, at := b.due(b.now, b.have, false); count != 0 || !at.IsZero() {
		t.Error(count, at)
	}
	if count, _ := b.due(b.now, b.have, true); count != 100 {
		t.Error(count)
	}
}

func BenchmarkPoolNext(b *testing.B) {
	pool := startFake(b, normal).pool("t", WithMinChunk(1_000_000))
	for i := 0; i < b.N; i++ {
		if _, err := pool.Next(background); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPoolNextParallel(b *testing.B) {
	pool := startFake(b, normal).pool("t", WithMinChunk(1_000_000))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := pool.Next(background); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPoolNextSnowflake(b *testing.B) {
	pool := startFake(b, normal).pool("", WithMinChunk(1_000_000))
	for i := 0; i < b.N; i++ {
		if _, err := pool.Next(background); err != nil {
			b.Fatal(err)
		}
	}
}
