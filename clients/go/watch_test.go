package leafd

import (
	"testing"
	"time"
)

func TestTheTimerIsRenewedOnlyWhenItIsNear(t *testing.T) {
	c, _ := greeted(t)
	now := time.Now()
	for _, step := range []struct {
		left    time.Duration
		renewed bool
	}{{-time.Hour, true}, {0, true}, {leastPatience - 1, true}, {leastPatience, false}, {patience, false}} {
		before := c.timer
		c.lookAt = now.Add(step.left)
		c.watch(now)
		if renewed := c.timer != before; renewed != step.renewed {
			t.Fatal(step, renewed)
		}
		left := c.lookAt.Sub(now)
		if step.renewed && left != patience || !step.renewed && left != step.left {
			t.Fatal(step, left)
		}
		if step.renewed {
			c.timer.Stop()
		}
	}
}

func TestATimerThatFiresWhileItIsRenewedStopsNobody(t *testing.T) {
	c, _ := greeted(t)
	if c.look() || c.turn != nobodyReads {
		t.Fatal("the reader reads too early")
	}
	if !c.takeTurn(time.Now().Add(time.Minute)) {
		t.Fatal("a caller cannot read")
	}
	if c.look() || c.relieving {
		t.Fatal("the caller is relieved too early")
	}
}

func TestTheReaderReadsWhenTheTimerFiresOrTheConnectionClosesAndNobodyReads(t *testing.T) {
	c, _ := greeted(t)
	c.remind()
	// The first was missed long ago.
	within(t, 0, c.remind)
	go func() {
		time.Sleep(leastPatience)
		c.mu.Lock()
		c.lookAt = time.Now()
		c.mu.Unlock()
		c.remind()
	}()
	within(t, leastPatience, c.rest)
	if c.turn != readerReads || len(c.wake) != 0 {
		t.Fatal(c.turn, len(c.wake))
	}
	c, _ = greeted(t)
	c.notify = func(*conn, error) {}
	c.close(errGoodbye, drain)
	c.close(errGoodbye, drain)
	within(t, 0, c.rest)
	if c.turn != readerReads || len(c.wake) != 0 {
		t.Fatal(c.turn, len(c.wake))
	}
}

func TestTheReaderGoesOnAfterACallerWhoseAnswerArrivesWhenItIsRelieved(t *testing.T) {
	c, _ := greeted(t)
	taken := c.takeTurn(time.Now().Add(time.Minute))
	c.lookAt = time.Now()
	looked := c.look()
	// Nothing is in flight, but no timer runs any more.
	if c.leave(nil); !taken || looked || c.turn != readerReads || len(c.wake) != 1 || c.relieving {
		t.Fatal(taken, c.turn, len(c.wake), c.relieving)
	}
}

func TestCallersInARowKeepTheTurn(t *testing.T) {
	client := startFake(t, normal).client()
	c := leadOnce(t, client)
	c.mu.Lock()
	first := c.timer
	c.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < 4*patience; {
		mustNext(t, client)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == first || time.Until(c.lookAt) > patience {
		t.Fatal("the timer is not renewed")
	}
}
