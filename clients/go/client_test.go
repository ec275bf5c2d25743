package leafd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leafd.invalid/leafd/wire"
)

func mustNext(t *testing.T, client *Client) int64 {
	t.Helper()
	id, err := client.Next(background, "t")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustFail(t *testing.T, err error, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v, not %v", err, kind)
	}
}

// within fails the test if body takes less than least, or about as long as a call that hangs until the default timeout.
// In between, a slow machine may take its time.
func within(t *testing.T, least time.Duration, body func()) {
	t.Helper()
	const most = defaultTimeout - 500*time.Millisecond
	begin := time.Now()
	body()
	if took := time.Since(begin); took < least || took > most {
		t.Fatalf("it took %v, not %v to %v", took, least, most)
	}
}

func TestCallsOfManyGoroutinesShareOneConnection(t *testing.T) {
	noLeak(t)
	f := startFake(t, normal)
	client := f.client()
	var mu sync.Mutex
	seen := map[int64]bool{}
	var all sync.WaitGroup
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 50; j++ {
				id, err := client.Next(background, "t")
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("%d %v", id, err)
				}
				seen[id] = true
				mu.Unlock()
			}
		}()
	}
	all.Wait()
	if len(seen) != 2500 || f.accepted.Load() != 1 {
		t.Fatalf("%d IDs over %d connections", len(seen), f.accepted.Load())
	}
}

func TestEveryCallReturnsWhatTheDaemonSent(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 8)
		for r, ok := p.read(); ok; r, ok = p.read() {
			if r.call == 1 && r.tag == "runs" {
				p.send(idsFrame(r.id, wire.Run{First: 10, Count: 2}, wire.Run{First: 5, Count: 1},
					wire.Run{First: 1<<63 - 1, Count: 1}))
				continue
			}
			p.send(p.answer(r))
		}
	})
	client := f.client()
	if id := mustNext(t, client); id != 1 {
		t.Error(id)
	}
	if id, err := client.Snowflake(background); id != 2 || err != nil {
		t.Error(id, err)
	}
	if ids, err := client.Snowflakes(background, 3); ids.Len() != 3 || ids.First() != 3 || err != nil {
		t.Error(ids, err)
	}
	if now, err := client.Time(background); now.UnixMilli() != 1700000000000 || err != nil {
		t.Error(now, err)
	}
	ids, err := client.NextMany(background, "runs", 4)
	if err != nil {
		t.Fatal(err)
	}
	var each []int64
	ids.Each(func(id int64) bool {
		each = append(each, id)
		return len(each) < 3
	})
	if all := ids.Slice(); len(all) != 4 || all[1] != 11 || all[2] != 5 || all[3] != 1<<63-1 || each[2] != 5 {
		t.Error(all, each)
	}
	_, err = client.NextMany(background, "t", 1001)
	var refusal *RefusedError
	if !errors.As(err, &refusal) || refusal.Code != CodeBadCount || refusal.Detail != 1000 {
		t.Error(err)
	}
}

func TestFramesAreAssembledHoweverTheyArrive(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		var held [][]byte
		for r, ok := p.read(); ok; r, ok = p.read() {
			if r.tag == "bytes" {
				for _, one := range p.answer(r) {
					p.send([]byte{one})
					time.Sleep(time.Millisecond)
				}
				continue
			}
			// All in one write, the last first.
			held = append([][]byte{p.answer(r)}, held...)
			if len(held) == 20 {
				p.send(held...)
			}
		}
	})
	client := f.client()
	if id, err := client.Next(background, "bytes"); id != 1 || err != nil {
		t.Fatal(id, err)
	}
	var all sync.WaitGroup
	var sum atomic.Int64
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			sum.Add(mustNext(t, client))
		}()
	}
	all.Wait()
	if sum.Load() != 20*23/2 {
		t.Fatal(sum.Load())
	}
}

func TestALargeAnswerArrivesWhole(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1_000_000, 64)
		r, _ := p.read()
		more := make([]wire.Run, 20_000)
		for i := range more {
			more[i] = wire.Run{First: uint64(10 * i), Count: 1}
		}
		p.send(idsFrame(r.id, wire.Run{First: 5, Count: 1}, more...))
		p.serve()
	})
	client := f.client()
	if ids, err := client.NextMany(background, "t", 20_001); err != nil || ids.Len() != 20_001 {
		t.Fatal(err)
	}
	mustNext(t, client)
}

func TestALateAnswerIsDroppedAndItsIDNotReused(t *testing.T) {
	late := make(chan struct{})
	ids := make(chan uint64, 2)
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		first, _ := p.read()
		ids <- first.id
		second, _ := p.read()
		ids <- second.id
		<-late
		p.send(idsFrame(first.id, wire.Run{First: 666, Count: 1}))
		p.send(idsFrame(second.id, wire.Run{First: 7, Count: 1}))
		p.serve()
	})
	client := f.client()
	ctx, cancel := context.WithCancel(background)
	go func() {
		for len(ids) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := client.Next(ctx, "t")
	mustFail(t, err, context.Canceled)
	time.AfterFunc(50*time.Millisecond, func() { close(late) })
	if id := mustNext(t, client); id != 7 {
		t.Fatal(id)
	}
	if one, two := <-ids, <-ids; one == two || one == 0 || two == 0 {
		t.Fatal(one, two)
	}
	if id := mustNext(t, client); id != 1 || f.accepted.Load() != 1 {
		t.Fatal(id, f.accepted.Load())
	}
}

func TestWhatBreaksTheProtocolFailsTheCallAndTheNextOneReconnects(t *testing.T) {
	for name, answer := range map[string]func(id uint64) []byte{
		"an answer with an ID that was never sent": func(id uint64) []byte {
			return idsFrame(id+1, wire.Run{First: 1, Count: 1})
		},
		"an unknown reply":   func(id uint64) []byte { return frame(id, 99, nil) },
		"a reply to another": func(id uint64) []byte { return frame(id, 5, make([]byte, 8)) },
		"a long frame":       func(uint64) []byte { return []byte{0, 4, 0, 1} },
		"a damaged body":     func(id uint64) []byte { return frame(id, 2, make([]byte, 19)) },
		"bytes left over":    func(id uint64) []byte { return frame(id, 2, make([]byte, 21)) },
		"IDs without request": func(id uint64) []byte {
			return idsFrame(0, wire.Run{First: 1, Count: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			f := startFake(t, func(p *peer) {
				p.hello(1000, 64)
				if p.number > 1 {
					p.serve()
					return
				}
				r, _ := p.read()
				p.send(answer(r.id))
				p.wait()
			})
			client := f.client()
			within(t, 0, func() {
				_, err := client.Next(background, "t")
				mustFail(t, err, ErrProtocol)
				if IsTemporary(err) {
					t.Error("it is not temporary")
				}
			})
			mustNext(t, client)
			if f.accepted.Load() != 2 {
				t.Fatal(f.accepted.Load())
			}
		})
	}
}

func TestIDsThatCannotBeRightAreRefused(t *testing.T) {
	run := func(first uint64, count uint32) wire.Run { return wire.Run{First: first, Count: count} }
	for name, runs := range map[string][]wire.Run{
		"too few":          {run(1, 2)},
		"too many":         {run(1, 4)},
		"empty run":        {run(1, 3), run(9, 0)},
		"too high":         {run(1<<63-2, 3)},
		"negative":         {run(1<<63, 3)},
		"far too high":     {run(1<<64-1, 3)},
		"twice":            {run(5, 2), run(6, 1)},
		"twice, apart":     {run(5, 1), run(9, 1), run(5, 1)},
		"overflow":         {run(1, 1<<32-1), run(1<<40, 4)},
		"nested, unsorted": {run(100, 1), run(1, 1), run(100, 1)},
	} {
		if ids, err := checkIDs(wire.IDs{First: runs[0], More: runs[1:]}, 3); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v %v", name, ids, err)
		}
	}
	for _, runs := range [][]wire.Run{{run(1<<63-3, 3)}, {run(0, 3)}, {run(7, 1), run(5, 2)}, {run(7, 1), run(8, 2)}} {
		if _, err := checkIDs(wire.IDs{First: runs[0], More: runs[1:]}, 3); err != nil {
			t.Errorf("%v: %v", runs, err)
		}
	}
}

func TestErrorsOfTheDaemonReachTheCallerAsTheyAre(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		for r, ok := p.read(); ok; r, ok = p.read() {
			code := map[string]Code{"none": CodeUnknownTag, "new2": 299, "new3": 399, "new9": 999, "row": CodeBadRow}[r.tag]
			p.send(errorFrame(r.id, code, 70, 1<<64-1))
		}
	})
	client := f.client()
	for tag, want := range map[string]struct {
		code      Code
		name      string
		temporary bool
	}{
		"none": {CodeUnknownTag, "UnknownTag", false},
		"new2": {299, "Unknown", false},
		"new3": {399, "Unknown", true},
		"new9": {999, "Unknown", false},
		"row":  {CodeBadRow, "BadRow", false},
	} {
		_, err := client.Next(background, tag)
		var refusal *RefusedError
		if !errors.As(err, &refusal) || !errors.Is(err, ErrRefused) || !errors.Is(err, want.code) {
			t.Fatal(err)
		}
		if refusal.Name() != want.name || refusal.Detail != 1<<64-1 || refusal.RetryAfter != 70*time.Millisecond ||
			IsTemporary(err) != want.temporary {
			t.Errorf("%+v", refusal)
		}
	}
	if f.accepted.Load() != 1 {
		t.Error("the connection goes on")
	}
}

func TestARefusedConnectionIsReportedAtOnce(t *testing.T) {
	for name, script := range map[string]func(p *peer){
		"before hello": func(p *peer) { p.send(errorFrame(0, CodeForbidden, 0, 1000)) },
		"in answer": func(p *peer) {
			r, _ := p.read()
			p.send(errorFrame(r.id, CodeForbidden, 0, 1000))
		},
		"after hello": func(p *peer) {
			p.hello(1000, 64)
			p.read()
			p.send(errorFrame(0, CodeForbidden, 0, 1000))
		},
		// The client's Hello meets a closed connection, perhaps.
		"and reset": func(p *peer) {
			p.send(errorFrame(0, CodeForbidden, 0, 1000))
			_ = p.Close()
		},
		"after hello, then reset": func(p *peer) {
			p.hello(1000, 64)
			p.send(errorFrame(0, CodeForbidden, 0, 1000))
			_ = p.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t, script)
			client := f.client()
			within(t, 0, func() {
				_, err := client.Next(background, "t")
				mustFail(t, err, CodeForbidden)
			})
			if f.accepted.Load() > 2 {
				t.Fatal("it reconnects in a loop")
			}
		})
	}
}

func TestGarbageBehindTheHelloIsReportedAtOnce(t *testing.T) {
	f := startFake(t, func(p *peer) {
		r, _ := p.read()
		p.send(helloFrame(r.id, wire.Version, 9, 9), []byte("HTTP/1.1 400 Bad Request"))
		p.wait()
	})
	client := f.client()
	within(t, 0, func() {
		_, err := client.Next(background, "t")
		mustFail(t, err, ErrProtocol)
	})
	if f.accepted.Load() > 1 {
		t.Fatal("it reconnects")
	}
}

func TestAnotherVersionIsReportedAtOnce(t *testing.T) {
	f := startFake(t, func(p *peer) {
		r, _ := p.read()
		if p.number == 1 {
			p.send(errorFrame(r.id, CodeVersionUnsupported, 0, 9))
		} else {
			p.send(helloFrame(r.id, 2, 1, 1))
		}
	})
	client := f.client()
	_, err := client.Next(background, "t")
	mustFail(t, err, CodeVersionUnsupported)
	_, err = client.Next(background, "t")
	mustFail(t, err, ErrProtocol)
}

func TestAFullDaemonIsTriedAgainUntilTheDeadline(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	f := startFake(t, func(p *peer) {
		if full.Load() {
			p.send(errorFrame(0, CodeTooManyConnections, 40, 9))
			return
		}
		normal(p)
	})
	client := f.client(WithTimeout(time.Second))
	within(t, 990*time.Millisecond, func() {
		_, err := client.Next(background, "t")
		mustFail(t, err, CodeTooManyConnections)
	})
	// Each pause is at least what the daemon asked for.
	if count := f.accepted.Load(); count < 2 || count > 26 {
		t.Fatal(count)
	}
	time.AfterFunc(50*time.Millisecond, func() { full.Store(false) })
	if _, err := client.WithTimeout(5*time.Second).Next(background, "t"); err != nil {
		t.Fatal(err)
	}
}

func TestAfterGoodbyeLateAnswersCountAndTheRestIsRepeated(t *testing.T) {
	noLeak(t)
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		if p.number > 1 {
			p.first.CompareAndSwap(1, 100)
			p.serve()
			return
		}
		one, _ := p.read()
		_, _ = p.read()
		p.send(goodbyeFrame())
		time.Sleep(time.Millisecond)
		p.send(idsFrame(one.id, wire.Run{First: 5, Count: 1}))
	})
	client := f.client()
	got := make(chan int64, 2)
	for i := 0; i < 2; i++ {
		go func() { got <- mustNext(t, client) }()
	}
	if one, two := <-got, <-got; one+two != 105 {
		t.Fatal(one, two)
	}
}

func TestACallThatAStoppingDaemonTurnsAwayIsRepeated(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		if p.number > 2 {
			p.serve()
			return
		}
		r, _ := p.read()
		p.send(errorFrame(r.id, CodeShuttingDown, 0, 0))
		p.wait()
	})
	mustNext(t, f.client())
}

func TestAConnectionThatEndsBetweenCallsFailsNone(t *testing.T) {
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		r, _ := p.read()
		p.send(p.answer(r))
		if p.number%2 == 0 {
			// As the request arrives.
			p.read()
		}
	})
	client := f.client()
	for i := 0; i < 10; i++ {
		mustNext(t, client)
	}
}

func TestARestartFailsNoCall(t *testing.T) {
	noLeak(t)
	f := startFake(t, normal)
	client := f.client()
	mustNext(t, client)
	f.stop()
	_ = os.Remove(f.path)
	time.AfterFunc(100*time.Millisecond, f.listen)
	within(t, 50*time.Millisecond, func() { mustNext(t, client) })
}

func TestWithoutADaemonACallEndsAtItsDeadline(t *testing.T) {
	noLeak(t)
	dir, err := os.MkdirTemp("", "leafd-go")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dead := filepath.Join(dir, "dead")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	full := filepath.Join(dir, "full")
	fd := fullListener(t, full)
	defer syscall.Close(fd)
	for path, cause := range map[string]error{
		filepath.Join(dir, "none"): syscall.ENOENT,
		dead:                       syscall.ECONNREFUSED,
		full:                       syscall.EAGAIN,
	} {
		client, err := New(WithSocket(path), WithTimeout(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		within(t, 295*time.Millisecond, func() {
			_, err = client.Next(background, "t")
		})
		mustFail(t, err, ErrUnavailable)
		mustFail(t, err, cause)
		if !IsTemporary(err) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
		_ = client.Close()
	}
}

// fullListener is a socket whose backlog has no room.
func fullListener(t *testing.T, path string) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	first, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	return fd
}

func TestASocketThatThisUserMayNotOpenIsReportedAtOnce(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open every socket")
	}
	f := startFake(t, normal)
	if err := os.Chmod(f.path, 0); err != nil {
		t.Fatal(err)
	}
	client := f.client()
	within(t, 0, func() {
		_, err := client.Next(background, "t")
		mustFail(t, err, ErrUnavailable)
		mustFail(t, err, syscall.EACCES)
		if IsTemporary(err) {
			t.Error(err)
		}
	})
}

func TestTheDeadlineHoldsWhateverThePeerDoes(t *testing.T) {
	drip := func(p *peer, bytes []byte) {
		for _, one := range bytes {
			if _, err := p.Write([]byte{one}); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		p.wait()
	}
	for name, test := range map[string]struct {
		script func(p *peer)
		kind   error
	}{
		"no hello":      {func(p *peer) { p.wait() }, ErrUnavailable},
		"slow hello":    {func(p *peer) { drip(p, helloFrame(1, 1, 1, 1)) }, ErrUnavailable},
		"no answer":     {func(p *peer) { p.hello(9, 9); p.wait() }, ErrDeadline},
		"a slow answer": {func(p *peer) { p.hello(9, 9); drip(p, idsFrame(2, wire.Run{First: 1, Count: 1})) }, ErrDeadline},
		"no reading":    {func(p *peer) { p.hello(9, 9); time.Sleep(1500 * time.Millisecond) }, ErrDeadline},
		"ends again and again": {func(p *peer) {
			p.hello(9, 9)
			p.read()
		}, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			client := startFake(t, test.script).client(WithTimeout(600 * time.Millisecond))
			within(t, 590*time.Millisecond, func() {
				_, err := client.Next(background, "t")
				mustFail(t, err, test.kind)
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error("it was not the context")
				}
			})
			ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
			defer cancel()
			within(t, 95*time.Millisecond, func() {
				_, err := client.Next(ctx, "t")
				mustFail(t, err, context.DeadlineExceeded)
			})
		})
	}
}

func TestASlowHelloIsNoFailure(t *testing.T) {
	client := startFake(t, func(p *peer) {
		time.Sleep(200 * time.Millisecond)
		normal(p)
	}).client()
	// The first caller gives up; the second goes on with the same attempt, or with a new one.
	go func() { _, _ = client.WithTimeout(100*time.Millisecond).Next(background, "t") }()
	mustNext(t, client)
}

// firstHangs is a daemon that answers nothing but Hello on its first connection.
func firstHangs(t *testing.T) *fake {
	return startFake(t, func(p *peer) {
		p.hello(1000, 64)
		if p.number > 1 {
			p.serve()
		} else {
			p.wait()
		}
	})
}

func TestAStuckConnectionIsReplaced(t *testing.T) {
	f := firstHangs(t)
	client := f.client()
	got := make(chan int64)
	go func() { got <- mustNext(t, client) }()
	_, err := client.WithTimeout(silence+500*time.Millisecond).Next(background, "t")
	mustFail(t, err, ErrDeadline)
	// The other caller's request moved to the next connection.
	if id := <-got; id != 1 || f.accepted.Load() != 2 {
		t.Fatal(id, f.accepted.Load())
	}
}

func TestALoneCallLeavesAStuckConnectionAtItsDeadline(t *testing.T) {
	f := firstHangs(t)
	client := f.client()
	_, err := client.WithTimeout(silence/5).Next(background, "t")
	mustFail(t, err, ErrDeadline)
	within(t, 0, func() { mustNext(t, client) })
	if f.accepted.Load() != 2 {
		t.Fatal(f.accepted.Load())
	}
}

func TestAConnectionThatAnsweredMeanwhileIsNotStuck(t *testing.T) {
	sent := make(chan struct{})
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		for r, ok := p.read(); ok; r, ok = p.read() {
			if r.tag == "silent" {
				close(sent)
			} else {
				p.send(p.answer(r))
			}
		}
	})
	client := f.client()
	failed := make(chan error)
	go func() {
		_, err := client.WithTimeout(silence+750*time.Millisecond).Next(background, "silent")
		failed <- err
	}()
	<-sent
	mustNext(t, client)
	// The silence after that answer is long, but the daemon lives.
	mustFail(t, <-failed, ErrDeadline)
	mustNext(t, client)
	if f.accepted.Load() != 1 {
		t.Fatal("the connection was replaced")
	}
}

func TestNoMoreRequestsAreInFlightThanTheDaemonAllows(t *testing.T) {
	var most atomic.Int64
	f := startFake(t, func(p *peer) {
		p.hello(1000, 3)
		requests := make(chan asked, 100)
		go func() {
			for r, ok := p.read(); ok; r, ok = p.read() {
				requests <- r
			}
			close(requests)
		}()
		for r := range requests {
			time.Sleep(5 * time.Millisecond)
			if waiting := int64(len(requests)) + 1; waiting > most.Load() {
				most.Store(waiting)
			}
			p.send(p.answer(r))
		}
	})
	client := f.client()
	var all sync.WaitGroup
	for i := 0; i < 30; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			mustNext(t, client)
		}()
	}
	all.Wait()
	if most.Load() != 3 || f.accepted.Load() != 1 {
		t.Fatal(most.Load(), f.accepted.Load())
	}
}

func TestCallersThatGaveUpStillCountAsInFlight(t *testing.T) {
	requests := make(chan asked, 10)
	f := startFake(t, func(p *peer) {
		p.hello(1000, 2)
		if p.number > 1 {
			p.serve()
			return
		}
		for r, ok := p.read(); ok; r, ok = p.read() {
			requests <- r
		}
	})
	client := f.client()
	ctx, cancel := context.WithCancel(background)
	failed := make(chan error, 2)
	for i := 0; i < 2; i++ {
		go func() {
			_, err := client.Next(ctx, "t")
			failed <- err
		}()
	}
	<-requests
	<-requests
	_, err := client.WithTimeout(50*time.Millisecond).Next(background, "t")
	mustFail(t, err, ErrDeadline)
	if len(requests) > 0 {
		t.Fatal("a third request was sent")
	}
	cancel()
	mustFail(t, <-failed, context.Canceled)
	mustFail(t, <-failed, context.Canceled)
	// Now nobody waits for what fills the connection. It is replaced.
	mustNext(t, client)
	if f.accepted.Load() != 2 {
		t.Fatal(f.accepted.Load())
	}
}

func TestACancelledCallEndsAtOnce(t *testing.T) {
	noLeak(t)
	f := startFake(t, func(p *peer) {
		if p.number == 1 {
			p.wait()
			return
		}
		p.hello(9, 9)
		p.wait()
	})
	client := f.client()
	for i := 0; i < 3; i++ {
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(30*time.Millisecond, cancel)
		within(t, 25*time.Millisecond, func() {
			_, err := client.Next(ctx, "t")
			mustFail(t, err, context.Canceled)
		})
		if _, err := client.Next(ctx, "t"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func TestCloseEndsEveryCallAndEveryGoroutine(t *testing.T) {
	noLeak(t)
	f := startFake(t, func(p *peer) {
		p.hello(9, 9)
		p.wait()
	})
	client := f.client()
	pool, err := client.NewPool("t")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 3)
	for _, next := range []func() (int64, error){
		func() (int64, error) { return client.Next(background, "t") },
		func() (int64, error) { return client.Snowflake(background) },
		func() (int64, error) { return pool.Next(background) },
	} {
		next := next
		go func() {
			_, err := next()
			failed <- err
		}()
	}
	time.Sleep(30 * time.Millisecond)
	within(t, 0, func() { _ = client.Close() })
	for i := 0; i < 3; i++ {
		mustFail(t, <-failed, ErrClosed)
	}
	for i := 0; i < 2; i++ {
		_, err = client.Next(background, "t")
		mustFail(t, err, ErrClosed)
		_, err = pool.Next(background)
		mustFail(t, err, ErrClosed)
		_ = client.Close()
		_ = pool.Close()
	}
	late, err := client.NewPool("t")
	if err != nil {
		t.Fatal(err)
	}
	_, err = late.Next(background)
	mustFail(t, err, ErrClosed)
}

func TestCloseInterruptsAnAttemptToConnect(t *testing.T) {
	noLeak(t)
	for _, client := range []*Client{
		startFake(t, func(p *peer) { p.wait() }).client(),
		startFake(t, func(p *peer) {}).client(WithBackoff(time.Hour, time.Hour), WithTimeout(time.Hour)),
	} {
		failed := make(chan error)
		go func() {
			_, err := client.Next(background, "t")
			failed <- err
		}()
		time.Sleep(30 * time.Millisecond)
		within(t, 0, func() { _ = client.Close() })
		mustFail(t, <-failed, ErrClosed)
	}
}

func TestManyRequestsAreWrittenAlthoughTheDaemonReadsSlowly(t *testing.T) {
	noLeak(t)
	f := startFake(t, func(p *peer) {
		_ = p.Conn.(*net.UnixConn).SetReadBuffer(1)
		p.hello(1000, 1<<20)
		time.Sleep(100 * time.Millisecond)
		p.serve()
	})
	client := f.client(WithTimeout(time.Minute))
	tag := strings.Repeat("😀", 128)
	var all sync.WaitGroup
	for i := 0; i < 2000; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if _, err := client.Next(background, tag); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
}

func TestInvalidArgumentsAreFoundBeforeAnythingIsSent(t *testing.T) {
	client, err := New(WithSocket(filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, tag := range []string{"", "a\nb", "a\u0085b", "\x7f", "\xff", strings.Repeat("ä", 129)} {
		_, err := client.Next(background, tag)
		mustFail(t, err, ErrInvalid)
		_, err = client.NewPool(tag)
		mustFail(t, err, ErrInvalid)
	}
	for _, tag := range []string{" ", strings.Repeat("😀", 128)} {
		if err := checkTag(tag); err != nil {
			t.Error(err)
		}
	}
	for _, count := range []int{0, -1} {
		_, err := client.NextMany(background, "t", count)
		mustFail(t, err, ErrInvalid)
		_, err = client.Snowflakes(background, count)
		mustFail(t, err, ErrInvalid)
	}
	for _, option := range []Option{WithSocket(""), WithSocket("a\x00b"), WithSocket(strings.Repeat("x", 108)),
		WithTimeout(0), WithTimeout(-1), WithBackoff(0, 1), WithBackoff(2*time.Second, time.Second)} {
		_, err := New(option)
		mustFail(t, err, ErrInvalid)
	}
}

func TestTheDaemonIsToldALittleLessThanTheTimeLeft(t *testing.T) {
	for left, want := range map[time.Duration]uint32{
		5 * time.Second:        4950,
		100 * time.Millisecond: 90,
		time.Millisecond:       1,
		0:                      1,
		-time.Second:           1,
		24 * time.Hour:         86_399_950,
	} {
		if got := daemonTimeoutMS(left); got != want {
			t.Errorf("%v: %d", left, got)
		}
	}
}

func TestPausesDoubleAndOnlyTheFirstAttemptAfterAnAnswerIsImmediate(t *testing.T) {
	now := time.Now()
	b := backoff{min: 5 * time.Millisecond, max: 500 * time.Millisecond}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 500, 500} {
		b.lost(now, 0, 0)
		if got := b.notBefore.Sub(now); got != want*time.Millisecond {
			t.Errorf("%v, not %v ms", got, want)
		}
	}
	b.lost(now, 1, 0)
	if got := b.notBefore.Sub(now); got != 250*time.Millisecond {
		t.Error(got)
	}
	b.answered = true
	b.lost(now, 0, 0)
	if got := b.notBefore.Sub(now); got != 0 {
		t.Error(got)
	}
	b.lost(now, 0, time.Second)
	if got := b.notBefore.Sub(now); got != time.Second {
		t.Error(got)
	}
}
