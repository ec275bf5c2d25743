package leafd

import (
	"context"
	"errors"
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

	// silence is how long nothing has to arrive before an overdue call condemns a connection on which others wait. It
	// spares them from callers with short deadlines.
	silence = time.Second

	// maxIdleBuffer is the largest buffer that is kept for reuse, in bytes.
	maxIdleBuffer = 64 * 1024
	// leastBuffer is the size of a buffer to read to, in bytes.
	leastBuffer = 8 * 1024
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

// conn is a connection after the handshake. One goroutine at a time reads: see turn. Callers write, and hand what the
// socket does not take at once to a goroutine.
type conn struct {
	sock        *net.UnixConn
	raw         syscall.RawConn
	maxCount    int
	maxInFlight int
	// slots holds an element for each request in flight, also for those whose callers gave up.
	slots chan struct{}
	// closing is closed when no request may be sent any more.
	closing chan struct{}
	// frames are bytes in the buffer that were read and not decoded. Only the goroutine whose turn it is uses both.
	frames, buffer []byte
	// wake has an element when the reader rests and it is its turn, and due when it has to look.
	wake, due chan struct{}
	// notify is called when no request may be sent any more, and again if the daemon then says more.
	notify func(c *conn, why error)

	mu   sync.Mutex
	turn turn
	// timer makes the reader look at lookAt. It is nil until the reader first rests.
	timer  *time.Timer
	lookAt time.Time
	// relieving: the caller that reads has to stop. Until it does, the deadline of the socket has passed.
	relieving bool
	// drainUntil is when to stop reading; zero: never.
	drainUntil time.Time
	nextID     uint64
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
	c.wake, c.due = make(chan struct{}, 1), make(chan struct{}, 1)
	c.turn = readerReads
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

// abandon gives up on a request. Its ID stays taken until the late answer arrives and is dropped. overdue says that
// its deadline passed.
//
// A daemon answers within the timeout of a request, if only with an error. If a call is overdue and nothing at all has
// arrived since it was sent, the connection is stuck; if other calls are in flight, only after a long silence. They then
// move to the next connection. The same if requests that were given up fill it.
func (c *conn) abandon(id uint64, caller chan answer, overdue bool) {
	c.mu.Lock()
	sent := c.inFlight[id]
	if sent.caller != caller {
		c.mu.Unlock()
		return
	}
	c.inFlight[id] = sentRequest{at: sent.at}
	c.abandoned++
	silent := !c.quietSince.After(sent.at)
	long := len(c.inFlight) == c.abandoned || time.Since(c.quietSince) >= silence
	stuck := overdue && silent && long || c.abandoned >= c.maxInFlight
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
		if readOn > 0 {
			c.drainUntil = time.Now().Add(readOn)
			// A caller that is being relieved sets it when it stops.
			if !c.relieving {
				_ = c.sock.SetReadDeadline(c.drainUntil)
			}
		}
		// If a caller has the turn, it wakes the reader when it leaves.
		c.resume()
	}
	c.mu.Unlock()
	if first {
		c.notify(c, why)
	}
	if readOn <= 0 {
		_ = c.sock.Close()
	}
}

// end ends the connection. Requests without an answer get why. Only the goroutine whose turn it is may call it, and a
// caller before it wakes the reader, which is next.
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
	if c.timer != nil {
		c.timer.Stop()
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
