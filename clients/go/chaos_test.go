package leafd

import (
	"context"
	"errors"
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leafd.invalid/leafd/wire"
)

// chaos answers at random times and in any order, now and then wrongly, late, not at all, or with the end of the
// connection. IDs of a tag begin with the byte of the tag.
func chaos(p *peer) {
	random := rand.New(rand.NewSource(int64(p.number)))
	if random.Intn(20) == 0 {
		p.send([][]byte{errorFrame(0, CodeTooManyConnections, 1, 0), goodbyeFrame(), {1, 2, 3}}[random.Intn(3)])
		return
	}
	if !p.hello(1000, 8) {
		return
	}
	requests := make(chan asked, 100)
	go func() {
		defer close(requests)
		for r, ok := p.read(); ok; r, ok = p.read() {
			requests <- r
		}
	}()
	var held []asked
	answer := func() []byte {
		i := random.Intn(len(held))
		r := held[i]
		held = append(held[:i], held[i+1:]...)
		// Half before the gap and half behind it.
		end := p.first.Add(uint64(r.count) + 1)
		first := end - uint64(r.count) - 1 | uint64(r.tag[0])<<40
		one := r.count / 2
		if one == 0 {
			return idsFrame(r.id, wire.Run{First: first, Count: r.count})
		}
		return idsFrame(r.id, wire.Run{First: first, Count: one}, wire.Run{First: first + uint64(one) + 1, Count: r.count - one})
	}
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return
			}
			held = append(held, r)
		case <-time.After(time.Duration(random.Intn(3000)) * time.Microsecond):
		}
		for len(held) > random.Intn(6) {
			switch random.Intn(150) {
			case 0:
				return
			case 1:
				p.send(goodbyeFrame())
				for len(held) > 2 {
					p.send(answer())
				}
				return
			case 2:
				p.send(errorFrame(held[0].id, CodeShuttingDown, 0, 0))
				held = held[1:]
			case 3:
				// An answer to nobody.
				p.send(idsFrame(1<<50, wire.Run{First: 666, Count: 1}))
				p.wait()
				return
			case 4:
				whole := answer()
				p.send(whole[:random.Intn(len(whole))])
				return
			case 5:
				// Damage that still decodes: more IDs than asked for, or some twice.
				r := held[0]
				held = held[1:]
				p.send(idsFrame(r.id, wire.Run{First: 1, Count: r.count}, wire.Run{First: 1, Count: 1}))
			case 6:
				// For ever.
				held = held[1:]
			case 7:
				p.send(errorFrame(held[0].id, CodeStoreUnavailable, 0, 0))
				held = held[1:]
			case 8:
				p.send(errorFrame(0, CodeTooManyConnections, 1, 0))
				return
			case 9:
				time.Sleep(30 * time.Millisecond)
			default:
				p.send(answer())
			}
		}
	}
}

func TestChaosNeverGivesAnIDTwiceOrToTheWrongCaller(t *testing.T) {
	noLeak(t)
	f := startFake(t, chaos)
	client := f.client(WithTimeout(time.Second))
	var mu sync.Mutex
	seen := map[int64]bool{}
	var failed, succeeded atomic.Int64
	take := func(tag string, ids IDs, err error) {
		if err != nil {
			failed.Add(1)
			for _, kind := range []error{ErrProtocol, ErrDeadline, ErrUnavailable, CodeStoreUnavailable,
				CodeTooManyConnections, context.Canceled, context.DeadlineExceeded} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Error(err)
			return
		}
		succeeded.Add(1)
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids.Slice() {
			if seen[id] {
				t.Errorf("%x comes twice", id)
			}
			if id>>40 != int64(tag[0]) {
				t.Errorf("%x is no ID of the tag %s", id, tag)
			}
			seen[id] = true
		}
	}
	end := time.Now().Add(2 * time.Second)
	if os.Getenv("LEAF_LONG") != "" {
		end = time.Now().Add(2 * time.Minute)
	}
	// A slow machine takes longer until enough has happened.
	longest := end.Add(30 * time.Second)
	isChaos := func() bool { return succeeded.Load() >= 100 && f.accepted.Load() >= 10 }
	goesOn := func() bool {
		now := time.Now()
		return now.Before(end) || now.Before(longest) && !isChaos()
	}
	var all sync.WaitGroup
	for i := 0; i < 24; i++ {
		i := i
		tag := string(rune('a' + i))
		all.Add(1)
		go func() {
			defer all.Done()
			random := rand.New(rand.NewSource(int64(i)))
			for goesOn() {
				ctx, cancel := context.WithCancel(background)
				switch random.Intn(10) {
				case 0:
					time.AfterFunc(time.Duration(random.Intn(5000))*time.Microsecond, cancel)
				case 1:
					ctx, cancel = context.WithTimeout(background, time.Duration(random.Intn(10_000))*time.Microsecond)
				}
				count := 1 + random.Intn(20)
				ids, err := client.NextMany(ctx, tag, count)
				take(tag, ids, err)
				cancel()
			}
		}()
	}
	for i := 24; i < 26; i++ {
		tag := string(rune('a' + i))
		pool := f.poolOf(client, tag, WithMaxChunk(200))
		var highest atomic.Int64
		for j := 0; j < 4; j++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for goesOn() {
					before := highest.Load()
					ids, err := pool.NextMany(background, 5)
					take(tag, ids, err)
					if err != nil {
						continue
					}
					if ids.First() <= before {
						t.Errorf("%x after %x", ids.First(), before)
					}
					for last := ids.Slice()[4]; ; {
						now := highest.Load()
						if now >= last || highest.CompareAndSwap(now, last) {
							break
						}
					}
				}
			}()
		}
	}
	all.Wait()
	t.Logf("%d calls succeeded, %d failed, %d connections", succeeded.Load(), failed.Load(), f.accepted.Load())
	if !isChaos() {
		t.Error("that was no chaos")
	}
}
