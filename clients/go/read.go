package leafd

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"leafd.invalid/leafd/wire"
)

// turn says who may read from the socket. A caller without others beside it reads its own answer, which saves two
// wake-ups. With several callers, or none, the connection's own goroutine reads: the reader.
type turn int

const (
	// nobodyReads: nothing is in flight, and the reader rests.
	nobodyReads turn = iota
	// callerReads: a caller sends its request and reads, until it has its answer or the reader relieves it.
	callerReads
	// readerReads: the reader reads, or will once it has been woken.
	readerReads
)

const (
	// patience is the longest time until look runs. A caller that reads cannot watch its context, so look stops it: it
	// notices a cancellation at most that late. If nobody reads, the reader does from then on, to notice when the daemon
	// stops.
	patience = 10 * time.Millisecond

	// leastPatience: a caller that takes the turn renews a timer that fires sooner. So the timer stays beyond the tick of
	// the kernel, 4 ms as a rule: each wait for the socket arms the processor's timer for a nearer one, which costs as
	// much as half a call.
	leastPatience = patience / 2

	// leastLead is the least time left in which a caller reads. The reader relieves it well before the deadline.
	leastLead = 2 * patience
)

// readFrame returns the body of the next frame, which is valid until the next call.
func (c *conn) readFrame() ([]byte, error) {
	for {
		body, ok, err := c.nextFrame()
		if ok || err != nil {
			return body, err
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// nextFrame returns the body of the next frame if it was read in whole.
func (c *conn) nextFrame() (body []byte, ok bool, err error) {
	body, rest, ok, err := wire.SplitFrame(c.frames)
	if err != nil {
		return nil, false, protocolErrorf("%v", err)
	}
	c.frames = rest
	return body, ok, nil
}

// fill reads once.
func (c *conn) fill() error {
	count, err := c.sock.Read(c.room())
	c.frames = c.frames[:len(c.frames)+count]
	switch {
	case count > 0:
		return nil
	case err == io.EOF:
		return errEnded
	}
	return err
}

// room returns the free part of the buffer, which grows only for a frame whose length was checked.
func (c *conn) room() []byte {
	size, _ := wire.FrameLen(c.frames)
	if size < leastBuffer {
		size = leastBuffer
	}
	if cap(c.buffer) < size {
		c.buffer = make([]byte, size)
	} else if len(c.frames) == 0 && cap(c.buffer) > maxIdleBuffer {
		c.buffer = make([]byte, leastBuffer)
	}
	// To the front, so that the frame fits.
	c.frames = c.buffer[:copy(c.buffer, c.frames)]
	return c.buffer[len(c.frames):]
}

// takeTurn lets a caller read if nobody does.
func (c *conn) takeTurn(deadline time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.turn != nobodyReads || c.why != nil || deadline.Sub(now) < leastLead {
		return false
	}
	c.turn = callerReads
	c.watch(now)
	return true
}

// watch makes look run, not before leastPatience and not after patience. The caller holds the lock.
func (c *conn) watch(now time.Time) {
	if c.lookAt.Sub(now) >= leastPatience {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	// Reset would not do: the runtime goes on to wait for the earlier time.
	c.timer = time.AfterFunc(patience, c.remind)
	c.lookAt = now.Add(patience)
}

// lead is send for a caller that has the turn. It reads until the answer is in the channel, the reader relieves it or
// the connection ends.
func (c *conn) lead(r *request, deadline time.Time, caller chan answer) (id uint64, ok bool) {
	l := leader{conn: c, request: r, deadline: deadline, caller: caller}
	try := l.try
	var err error
	for err == nil && len(caller) == 0 {
		l.room = c.room()
		if err = c.raw.Read(try); err != nil || l.refused {
			break
		}
		err = l.understand()
	}
	c.leave(err)
	if !l.sent {
		// Relieved before it could send, unless the connection takes no requests any more.
		return c.send(r, deadline, caller)
	}
	return l.id, true
}

// leader is a caller during its turn.
type leader struct {
	conn     *conn
	request  *request
	deadline time.Time
	caller   chan answer
	id       uint64
	sent     bool
	// refused: the connection takes no requests any more.
	refused bool
	room    []byte
	// count and failure are the result of the last read.
	count   int
	failure error
}

// try reads what has arrived. If nothing has, it sends the request, once. It returns false to wait for more.
func (l *leader) try(fd uintptr) bool {
	if l.read(fd); l.failure == syscall.EAGAIN && !l.sent {
		// Only now: what arrived before may be a goodbye.
		if l.id, l.sent = l.conn.send(l.request, l.deadline, l.caller); !l.sent {
			l.refused = true
			return true
		}
		// A daemon on the same processor may have answered already.
		l.read(fd)
	}
	return l.failure != syscall.EAGAIN
}

func (l *leader) read(fd uintptr) {
	for {
		if l.count, l.failure = syscall.Read(int(fd), l.room); l.failure != syscall.EINTR {
			return
		}
	}
}

// understand deals with what was read.
func (l *leader) understand() error {
	switch {
	case l.failure != nil:
		return os.NewSyscallError("read", l.failure)
	case l.count == 0:
		return errEnded
	}
	c := l.conn
	c.frames = c.frames[:len(c.frames)+l.count]
	return c.understandAll()
}

// leave ends the turn of a caller. The reader goes on if it relieved the caller, requests are in flight or the connection
// is closing. err is why the caller stopped, if not for its answer.
func (c *conn) leave(err error) {
	c.mu.Lock()
	// If it was relieved, no timer runs.
	wake := err != nil || c.relieving || c.why != nil || len(c.inFlight) > 0
	if c.relieving {
		c.relieving = false
		_ = c.sock.SetReadDeadline(c.drainUntil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
	}
	c.turn = nobodyReads
	if wake {
		c.turn = readerReads
	}
	c.mu.Unlock()
	if err != nil {
		c.end(err)
	}
	if wake {
		c.wake <- struct{}{}
	}
}

// read is the reader. It runs until the connection ends.
func (c *conn) read() {
	err := c.understandAll()
	for err == nil {
		if err = c.fill(); err == nil {
			err = c.understandAll()
		}
		if err == nil && c.pause() {
			c.rest()
		}
	}
	c.end(err)
	c.writers.Wait()
}

// pause ends the turn of the reader if nothing is in flight. It returns true if the reader has to wait to be woken.
func (c *conn) pause() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inFlight) > 0 || c.why != nil {
		return false
	}
	c.turn = nobodyReads
	c.watch(time.Now())
	return true
}

// resume wakes the reader if nobody reads. The caller holds the lock.
func (c *conn) resume() {
	if c.turn == nobodyReads {
		c.turn = readerReads
		c.wake <- struct{}{}
	}
}

// remind makes a resting reader look.
func (c *conn) remind() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// rest returns when it is the reader's turn.
func (c *conn) rest() {
	for {
		select {
		case <-c.wake:
			return
		case <-c.due:
			if c.look() {
				return
			}
		}
	}
}

// look takes the turn if nobody reads, and stops a caller that does. Only the reader calls it, so that it reads at once:
// until it does, callers send without having read.
func (c *conn) look() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.lookAt) {
		// The reader missed it while it read, or a caller renewed the timer just when it fired.
		return false
	}
	switch {
	case c.turn == nobodyReads:
		c.turn = readerReads
		return true
	case c.turn == callerReads && !c.relieving:
		c.relieving = true
		_ = c.sock.SetReadDeadline(time.Unix(1, 0))
	}
	return false
}

// understandAll deals with every message that was read in whole. An error ends the connection.
func (c *conn) understandAll() error {
	for {
		body, ok, err := c.nextFrame()
		if !ok || err != nil {
			return err
		}
		if err := c.understand(body); err != nil {
			return err
		}
	}
}

// understand deals with one message.
func (c *conn) understand(body []byte) error {
	id, reply, err := wire.DecodeResponse(body)
	if err != nil {
		return protocolErrorf("%v", err)
	}
	failure, isError := reply.(wire.Error)
	stopping := isError && Code(failure.Code) == CodeShuttingDown
	if _, isGoodbye := reply.(wire.Goodbye); isGoodbye || stopping && id == wire.Unsolicited {
		c.close(errGoodbye, drain)
		return nil
	}
	if id == wire.Unsolicited {
		if isError {
			return refused(failure)
		}
		return protocolErrorf("it sent %s that answers no request", reply.Name())
	}
	result := answer{reply: reply}
	if stopping {
		result = answer{lost: errGoodbye}
	}
	if !c.deliver(id, result) {
		return protocolErrorf("it answered request %d, which was never sent or already has an answer", id)
	}
	if stopping {
		c.close(errGoodbye, drain)
	}
	return nil
}

// deliver passes an answer to its caller. It returns false if no such request is in flight.
func (c *conn) deliver(id uint64, result answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, known := c.inFlight[id]
	if !known {
		return false
	}
	delete(c.inFlight, id)
	c.quietSince = time.Now()
	if result.lost == nil {
		c.answered = true
	}
	if sent.caller != nil {
		sent.caller <- result
	} else {
		c.abandoned--
	}
	<-c.slots
	return true
}
