package leafd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"leafd.invalid/leafd/wire"
)

const (
	helloID     = 1
	firstCallID = 2

	// drain is how long to read on after the daemon said goodbye or writing failed. Answers from memory take far
	// less; calls that take longer are repeated on the next connection.
	drain = 100 * time.Millisecond

	// silence is how long nothing has to arrive, with requests in flight, before a call that gets no answer in time
	// condemns the connection. It spares connections whose callers have deadlines of a few milliseconds.
	silence = 250 * time.Millisecond

	// maxIdleBuffer is the largest write buffer that is kept for reuse, in bytes.
	maxIdleBuffer = 64 * 1024
)

// Why a connection ended, or was not made.
var (
	errGoodbye = errors.New("the daemon is stopping")
	errEnded   = errors.New("the daemon closed the connection")
	errStuck   = errors.New("the daemon stopped answering")
	errNoHello = errors.New("it did not say hello in time")
	errNotSent = errors.New("the connection ended before the request was sent")
)

// isFatal reports whether another attempt would fail in the same way. Callers then get the error at once.
func isFatal(err error) bool {
	var refusal *RefusedError
	switch {
	case errors.As(err, &refusal):
		return !refusal.Temporary()
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrClosed):
		return true
	default:
		// The permissions of the socket, or of a directory on the way, keep this user out.
		return errors.Is(err, os.ErrPermission)
	}
}

// answer is what a request in flight gets: a reply, or why there is none.
type answer struct {
	reply wire.Reply
	lost  error
}

// sentRequest is a request in flight. caller is nil if the caller gave up.
type sentRequest struct {
	caller chan answer
	at     time.Time
}

// conn is a connection after the handshake. One goroutine reads; callers write, and hand what the socket does not take
// at once to a goroutine.
type conn struct {
	sock        *net.UnixConn
	raw         syscall.RawConn
	maxCount    int
	maxInFlight int
	// slots holds an element for each request in flight, also for those whose callers gave up.
	slots chan struct{}
	// closing is closed when no request may be sent any more.
	closing chan struct{}
	// frames are bytes that were read and not decoded. Only the reader uses it.
	frames []byte
	// notify is called when no request may be sent any more, and again if the daemon then says more.
	notify func(c *conn, why error)

	mu     sync.Mutex
	nextID uint64
	// inFlight has the requests without an answer.
	inFlight  map[uint64]sentRequest
	abandoned int
	// quietSince is when the last answer arrived, or the first of the requests in flight was sent.
	quietSince time.Time
	// answered: a call was answered.
	answered bool
	// why is set when no request may be sent any more.
	why error
	// out are the bytes to write; writing says that somebody is writing.
	out, spare []byte
	writing    bool
	// writers counts the goroutine that writes what the socket did not take at once.
	writers sync.WaitGroup
}

// dial connects and says hello. ctx bounds both.
func dial(ctx context.Context, path string) (*conn, error) {
	// The net package takes a leading @ for an abstract name, which anybody may have.
	if path[0] == '@' {
		path = "./" + path
	}
	var dialer net.Dialer
	sock, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Interrupts reads and writes when ctx ends.
	watched := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			_ = sock.SetDeadline(time.Unix(1, 0))
		case <-watched:
		}
	}()
	c, err := greet(sock.(*net.UnixConn))
	close(watched)
	<-stopped
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	return c, nil
}

func greet(sock *net.UnixConn) (*conn, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{sock: sock, raw: raw}
	// The daemon may have refused the connection and closed it already. Then writing fails, but the reason can still
	// be read.
	_, writeErr := sock.Write(wire.AppendHello(nil, helloID, wire.Magic, wire.Version))
	body, err := c.readFrame()
	if err != nil {
		if writeErr != nil && !errors.Is(err, ErrProtocol) {
			err = writeErr
		}
		return nil, err
	}
	if err := c.welcome(body); err != nil {
		return nil, err
	}
	c.slots = make(chan struct{}, c.maxInFlight)
	c.closing = make(chan struct{})
	c.nextID = firstCallID
	c.inFlight = make(map[uint64]sentRequest)
	return c, nil
}

// welcome interprets the first message of a connection.
func (c *conn) welcome(body []byte) error {
	id, reply, err := wire.DecodeResponse(body)
	if err != nil {
		return protocolErrorf("%v", err)
	}
	switch reply := reply.(type) {
	case wire.Error:
		switch {
		case id != helloID && id != wire.Unsolicited:
			return protocolErrorf("it answered request %d, which was never sent", id)
		case Code(reply.Code) == CodeShuttingDown:
			return errGoodbye
		}
		return refused(reply)
	case wire.Goodbye:
		return errGoodbye
	case wire.Hello:
		switch {
		case id != helloID:
			return protocolErrorf("it answered request %d, which was never sent", id)
		case reply.Version != wire.Version:
			return protocolErrorf("it chose protocol version %d, which was not offered", reply.Version)
		}
		c.maxCount, c.maxInFlight = limit(reply.MaxCount), limit(reply.MaxInFlight)
		return nil
	default:
		return protocolErrorf("it answered with %s instead of Hello", reply.Name())
	}
}

// limit is a limit of the daemon, within what this client can use.
func limit(value uint32) int {
	const most = 1 << 30
	switch {
	case value == 0:
		return 1
	case value > most:
		return most
	}
	return int(value)
}

// readFrame returns the body of the next frame, which is valid until the next call.
func (c *conn) readFrame() ([]byte, error) {
	for {
		body, rest, ok, err := wire.SplitFrame(c.frames)
		if err != nil {
			return nil, protocolErrorf("%v", err)
		}
		if ok {
			c.frames = rest
			return body, nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once. The buffer grows only for a frame whose length was checked.
func (c *conn) fill() error {
	const enough = 8 * 1024
	size, _ := wire.FrameLen(c.frames)
	if size < enough {
		size = enough
	}
	have := len(c.frames)
	if cap(c.frames)-have < 512 || cap(c.frames) < size {
		grown := make([]byte, have, size+have)
		copy(grown, c.frames)
		c.frames = grown
	}
	count, err := c.sock.Read(c.frames[have:cap(c.frames)])
	c.frames = c.frames[:have+count]
	if count > 0 {
		return nil
	}
	if err == io.EOF {
		return errEnded
	}
	return err
}

// read runs until the connection ends.
func (c *conn) read() {
	var err error
	for err == nil {
		var body []byte
		if body, err = c.readFrame(); err == nil {
			err = c.understand(body)
		}
	}
	c.end(err)
	c.writers.Wait()
}

// understand deals with one message. An error ends the connection.
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

// send sends a request. The answer arrives in the channel, which has room for one. The caller holds a slot, which the
// answer frees. It returns false if the connection takes no requests any more.
func (c *conn) send(r *request, deadline time.Time, caller chan answer) (id uint64, ok bool) {
	c.mu.Lock()
	if c.why != nil {
		c.mu.Unlock()
		return 0, false
	}
	now := time.Now()
	id = c.nextID
	c.nextID++
	if len(c.inFlight) == 0 {
		c.quietSince = now
	}
	c.inFlight[id] = sentRequest{caller: caller, at: now}
	c.out = r.encode(r, c.out, id, daemonTimeoutMS(deadline.Sub(now)))
	if c.writing {
		c.mu.Unlock()
		return id, true
	}
	c.writing = true
	batch := c.takeOut()
	c.mu.Unlock()
	rest, err := c.writeNow(batch)
	if err != nil {
		c.close(err, drain)
		return id, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(rest) == 0 && len(c.out) == 0:
		c.writing = false
		c.keep(batch)
	case c.why == nil:
		// Not here: this caller must not write what others go on adding, nor wait for the socket.
		c.writers.Add(1)
		go c.write(batch, rest)
	}
	return id, true
}

// write writes the rest of a batch, and then what was added meanwhile.
func (c *conn) write(batch, rest []byte) {
	defer c.writers.Done()
	for {
		if _, err := c.sock.Write(rest); err != nil {
			c.close(err, drain)
			return
		}
		c.mu.Lock()
		c.keep(batch)
		if len(c.out) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		batch = c.takeOut()
		rest = batch
		c.mu.Unlock()
	}
}

// takeOut takes the bytes to write. The caller holds the lock.
func (c *conn) takeOut() []byte {
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	return batch
}

// keep keeps the buffer of a batch for reuse. The caller holds the lock.
func (c *conn) keep(batch []byte) {
	if cap(batch) <= maxIdleBuffer {
		c.spare = batch
	}
}

// writeNow writes what the socket takes without waiting, and returns the rest.
func (c *conn) writeNow(batch []byte) (rest []byte, err error) {
	var count int
	var failure error
	err = c.raw.Write(func(fd uintptr) bool {
		count, failure = syscall.Write(int(fd), batch)
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case failure == syscall.EAGAIN || failure == syscall.EINTR:
		return batch, nil
	case failure != nil:
		return nil, os.NewSyscallError("write", failure)
	}
	return batch[count:], nil
}

// abandon gives up on a request. Its ID stays taken until the late answer arrives and is dropped. overdue says that
// its deadline passed.
//
// A daemon answers within the timeout of a request, if only with an error. If a call is overdue and nothing at all has
// arrived since it was sent, the connection is stuck, and the other requests in flight move to the next one. The same
// if requests that were given up fill it.
func (c *conn) abandon(id uint64, caller chan answer, overdue bool) {
	c.mu.Lock()
	sent := c.inFlight[id]
	if sent.caller != caller {
		c.mu.Unlock()
		return
	}
	c.inFlight[id] = sentRequest{at: sent.at}
	c.abandoned++
	silent := !c.quietSince.After(sent.at) && time.Since(c.quietSince) >= silence
	stuck := overdue && silent || c.abandoned >= c.maxInFlight
	c.mu.Unlock()
	if stuck {
		c.close(errStuck, 0)
	}
}

// close takes no further requests, and reads on for a while: what is there says more, and answers may still arrive.
func (c *conn) close(why error, readOn time.Duration) {
	c.mu.Lock()
	first := c.why == nil
	if first {
		c.why = why
		close(c.closing)
	}
	c.mu.Unlock()
	if first {
		c.notify(c, why)
	}
	if readOn > 0 {
		if first {
			_ = c.sock.SetReadDeadline(time.Now().Add(readOn))
		}
		return
	}
	_ = c.sock.Close()
}

// end ends the connection. Requests without an answer get why.
func (c *conn) end(why error) {
	var refusal *RefusedError
	c.mu.Lock()
	switch saysMore := errors.As(why, &refusal) || isFatal(why); {
	case c.why == nil:
	case saysMore:
		defer c.notify(c, why)
	default:
		// What the reader met after that is only a consequence.
		why = c.why
	}
	c.mu.Unlock()
	c.close(why, 0)
	c.mu.Lock()
	for id, sent := range c.inFlight {
		if sent.caller != nil {
			sent.caller <- answer{lost: why}
		}
		delete(c.inFlight, id)
	}
	c.mu.Unlock()
}

// reason is why the connection takes no requests any more; nil while it does.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// record says whether the connection answered a call, and whether no request was in flight.
func (c *conn) record() (answered, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, len(c.inFlight) == 0
}

// notSent is why a request was not sent. It is not the cause of what ended the connection, so it goes to the next one.
// But if the connection never answered a call, the next one would end in the same way.
func (c *conn) notSent() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isFatal(c.why) && !c.answered {
		return c.why
	}
	return errNotSent
}
