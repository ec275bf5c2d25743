package leafd

import (
	"context"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leafd.invalid/leafd/wire"
)

// leadOnce makes calls until nobody reads. As a rule, the next caller then reads for itself.
func leadOnce(t *testing.T, client *Client) *conn {
	t.Helper()
	for i := 0; i < 1000; i++ {
		mustNext(t, client)
		client.link.mu.Lock()
		c := client.link.conn
		client.link.mu.Unlock()
		if c == nil {
			continue
		}
		c.mu.Lock()
		free := c.turn == nobodyReads
		c.mu.Unlock()
		if free {
			return c
		}
	}
	t.Fatal("no caller reads for itself")
	return nil
}

// holding answers requests for IDs of "t" at once, and others as answer says.
func holding(answer func(p *peer, r asked)) func(p *peer) {
	return func(p *peer) {
		p.hello(1000, 64)
		for r, ok := p.read(); ok; r, ok = p.read() {
			if r.tag == "t" {
				p.send(p.answer(r))
			} else {
				answer(p, r)
			}
		}
	}
}

func TestACallerThatReadsForItselfEndsAtOnceWhenItIsCancelled(t *testing.T) {
	noLeak(t)
	held := make(chan asked, 1)
	f := startFake(t, holding(func(p *peer, r asked) { held <- r }))
	client := f.client()
	c := leadOnce(t, client)
	// Before the reader relieves it, about then, and long after.
	for _, pause := range []time.Duration{0, leastPatience, patience, 4 * patience} {
		mustNext(t, client)
		ctx, cancel := context.WithCancel(background)
		go func() {
			<-held
			time.Sleep(pause)
			cancel()
		}()
		within(t, 0, func() {
			_, err := client.Next(ctx, "held")
			mustFail(t, err, context.Canceled)
		})
	}
	mustNext(t, client)
	if f.accepted.Load() != 1 {
		t.Fatal(f.accepted.Load())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The late answers are still due, so the reader keeps reading.
	if c.turn != readerReads || c.relieving || len(c.inFlight) != 4 {
		t.Fatal(c.turn, c.relieving, len(c.inFlight))
	}
}

func TestACallerThatReadsPassesOnTheAnswersOfOthers(t *testing.T) {
	noLeak(t)
	first := make(chan asked, 1)
	f := startFake(t, holding(func(p *peer, r asked) {
		switch r.tag {
		case "first":
			first <- r
		case "release":
			// In one write, in the opposite order.
			p.send(p.answer(r), p.answer(<-first))
		}
	}))
	client := f.client()
	for i := 0; i < 50; i++ {
		leadOnce(t, client)
		var all sync.WaitGroup
		for _, tag := range []string{"first", "t", "t", "t"} {
			tag := tag
			all.Add(1)
			go func() {
				defer all.Done()
				if _, err := client.Next(background, tag); err != nil {
					t.Error(err)
				}
			}()
		}
		for len(first) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		if _, err := client.Next(background, "release"); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	}
	if f.accepted.Load() != 1 {
		t.Fatal(f.accepted.Load())
	}
}

func TestOthersGetTheirAnswersAfterTheCallerThatReadsHasLeft(t *testing.T) {
	noLeak(t)
	held := make(chan asked, 2)
	f := startFake(t, holding(func(p *peer, r asked) {
		held <- r
		if r.tag == "second" {
			<-held
			p.send(p.answer(r)[:10])
			time.Sleep(4 * leastLead)
			p.send(p.answer(r)[10:])
		}
	}))
	client := f.client()
	leadOnce(t, client)
	failed := make(chan error, 1)
	go func() {
		_, err := client.WithTimeout(2*leastLead).Next(background, "first")
		failed <- err
	}()
	for len(held) == 0 {
		time.Sleep(10 * time.Microsecond)
	}
	if id, err := client.Next(background, "second"); id == 0 || err != nil {
		t.Fatal(id, err)
	}
	mustFail(t, <-failed, ErrDeadline)
	if f.accepted.Load() != 1 {
		t.Fatal(f.accepted.Load())
	}
}

func TestAnAnswerMayArriveJustWhenTheReaderTakesOver(t *testing.T) {
	noLeak(t)
	f := startFake(t, holding(func(p *peer, r asked) {
		answer := p.answer(r)
		half := rand.Intn(len(answer))
		time.Sleep(time.Duration(rand.Int63n(int64(patience))))
		p.send(answer[:half])
		time.Sleep(time.Duration(rand.Int63n(int64(leastPatience))))
		p.send(answer[half:])
	}))
	client := f.client()
	seen := map[int64]bool{}
	for i := 0; i < 300; i++ {
		mustNext(t, client)
		id, err := client.Next(background, "slow")
		if err != nil || seen[id] {
			t.Fatal(id, err)
		}
		seen[id] = true
	}
	if f.accepted.Load() != 1 {
		t.Fatal(f.accepted.Load())
	}
}

func TestAGoodbyeThatArrivesWhileNobodyReadsIsHeeded(t *testing.T) {
	noLeak(t)
	answered, saidGoodbye := make(chan struct{}), make(chan struct{})
	var late atomic.Int32
	f := startFake(t, func(p *peer) {
		p.hello(1000, 64)
		for i := 0; ; i++ {
			r, ok := p.read()
			if !ok {
				return
			}
			p.send(p.answer(r))
			if i == 20 {
				break
			}
		}
		<-answered
		p.send(goodbyeFrame())
		saidGoodbye <- struct{}{}
		if _, ok := p.read(); ok {
			late.Add(1)
		}
	})
	client := f.client()
	for i := 0; i < 30; i++ {
		for j := 0; j <= 20; j++ {
			mustNext(t, client)
		}
		answered <- struct{}{}
		<-saidGoodbye
		time.Sleep(time.Duration(i) * patience / 20)
	}
	if f.accepted.Load() != 30 {
		t.Fatal(f.accepted.Load())
	}
	// A request may still go out in the moment in which the reader has the turn and has not run yet. It is repeated.
	if late.Load() > 5 {
		t.Fatal(late.Load(), "requests after a goodbye")
	}
}

func TestAConnectionThatEndsUnderACallerThatReadsIsReplaced(t *testing.T) {
	noLeak(t)
	f := startFake(t, holding(func(p *peer, r asked) {
		if p.number%2 == 0 {
			p.send(idsFrame(r.id, wire.Run{First: 1000, Count: 1}))
		}
		_ = p.Close()
	}))
	client := f.client()
	for i := 0; i < 10; i++ {
		leadOnce(t, client)
		if id, err := client.Next(background, "end"); id != 1000 || err != nil {
			t.Fatal(id, err)
		}
	}
}

func TestCloseEndsACallerThatReads(t *testing.T) {
	noLeak(t)
	held := make(chan asked, 1)
	client := startFake(t, holding(func(p *peer, r asked) { held <- r })).client()
	leadOnce(t, client)
	failed := make(chan error)
	go func() {
		_, err := client.Next(background, "held")
		failed <- err
	}()
	<-held
	within(t, 0, func() { _ = client.Close() })
	mustFail(t, <-failed, ErrClosed)
}

// greeted is a connection whose reader does not run, and a request for it.
func greeted(t *testing.T) (*conn, *request) {
	t.Helper()
	c, err := dial(background, startFake(t, normal).path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.sock.Close() })
	c.turn = nobodyReads
	// The timer does not fire during the test.
	c.lookAt = time.Now().Add(time.Hour)
	r, err := segment("t", 1)
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

func TestTheReaderIsWokenForARequestOfACallerThatDoesNotRead(t *testing.T) {
	c, r := greeted(t)
	soon := time.Now().Add(leastLead / 2)
	if c.takeTurn(soon) {
		t.Fatal("a caller reads although its deadline is near")
	}
	if _, ok := c.send(r, soon, make(chan answer, 1)); !ok || c.turn != readerReads || len(c.wake) != 1 {
		t.Fatal(ok, c.turn, len(c.wake))
	}
}

func TestTheReaderIsWokenForWhatACallerLeavesBehind(t *testing.T) {
	c, r := greeted(t)
	deadline := time.Now().Add(time.Minute)
	mustWake := func(what string) {
		t.Helper()
		if !c.takeTurn(deadline) {
			t.Fatal("a caller cannot read")
		}
		c.leave(nil)
		if c.turn != nobodyReads || len(c.wake) != 0 {
			t.Fatal("the reader is woken for nothing")
		}
		if !c.takeTurn(deadline) {
			t.Fatal("a caller cannot read")
		}
		if what == "a request" {
			c.send(r, deadline, make(chan answer, 1))
		} else {
			c.notify = func(*conn, error) {}
			c.close(errGoodbye, drain)
		}
		c.leave(nil)
		if c.turn != readerReads || len(c.wake) != 1 {
			t.Fatal("the reader sleeps in spite of", what)
		}
	}
	mustWake("a goodbye")
	c, r = greeted(t)
	mustWake("a request")
}

func TestACallerThatIsRelievedBeforeItHasSentSendsOnce(t *testing.T) {
	c, r := greeted(t)
	deadline := time.Now().Add(time.Minute)
	taken := c.takeTurn(deadline)
	c.lookAt = time.Now()
	if c.look() || !taken || !c.relieving {
		t.Fatal("it is not relieved")
	}
	caller := make(chan answer, 1)
	c.slots <- struct{}{}
	if _, ok := c.lead(r, deadline, caller); !ok || c.turn != readerReads || len(c.wake) != 1 || len(c.inFlight) != 1 {
		t.Fatal(ok, c.turn, len(c.wake), len(c.inFlight))
	}
	// As the reader does. The deadline that stopped the caller is gone.
	for len(caller) == 0 {
		if err := c.fill(); err != nil {
			t.Fatal(err)
		}
		if err := c.understandAll(); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.slots) != 0 || !c.pause() {
		t.Fatal("something is in flight")
	}
}

func TestWhileNobodyCallsTheReaderReads(t *testing.T) {
	f := startFake(t, normal)
	client := f.client()
	c := leadOnce(t, client)
	within(t, 0, func() {
		for reading := false; !reading; time.Sleep(leastPatience) {
			c.mu.Lock()
			reading = c.turn == readerReads
			c.mu.Unlock()
		}
	})
}
