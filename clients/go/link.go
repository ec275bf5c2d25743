package leafd

import (
	"context"
	"errors"
	"sync"
	"time"
)

// link keeps the connection that all callers of a client share, and makes the next one.
type link struct {
	options options
	// ctx ends when the client is closed.
	ctx    context.Context
	cancel context.CancelFunc
	// running counts the goroutines that read and connect, and those of pools.
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// conn takes requests; nil if there is none.
	conn *conn
	// open has every connection that has not ended, those that are drained included.
	open map[*conn]struct{}
	// attempt is the attempt to connect that is under way; nil if there is none.
	attempt *attempt
	backoff backoff
	// last is why the last attempt failed or the last connection broke; nil after a handshake.
	last error
}

// attempt is one attempt to connect. It is given up when nobody waits for it any more.
type attempt struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	// The result, once done is closed.
	conn *conn
	err  error
}

func newLink(o options) *link {
	l := &link{options: o, backoff: backoff{min: o.backoffMin, max: o.backoffMax}, open: make(map[*conn]struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// connection returns a connection that takes requests, and makes one if there is none. Once an attempt has failed, an
// impatient caller gets the error instead of another attempt.
func (l *link) connection(w *wait, impatient bool) (*conn, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, ErrClosed
		}
		if l.conn != nil {
			if why := l.conn.reason(); why != nil {
				l.drop(why)
			}
		}
		connected := l.conn != nil
		if err := w.passed(connected); err != nil {
			l.mu.Unlock()
			return nil, err
		}
		if connected {
			defer l.mu.Unlock()
			return l.conn, nil
		}
		a := l.join()
		l.mu.Unlock()
		select {
		case <-a.done:
			if a.err == nil {
				return a.conn, nil
			}
			if impatient || isFatal(a.err) {
				return nil, a.err
			}
			continue
		case <-w.over():
		case <-w.ctx.Done():
		}
		l.leave(a)
		return nil, w.ended(false)
	}
}

// join joins the attempt to connect, and begins one if there is none. The caller holds the lock.
func (l *link) join() *attempt {
	if l.attempt == nil {
		ctx, cancel := context.WithCancel(l.ctx)
		l.attempt = &attempt{cancel: cancel, done: make(chan struct{})}
		l.running.Add(1)
		go l.connect(ctx, l.attempt)
	}
	l.attempt.waiting++
	return l.attempt
}

func (l *link) leave(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.waiting--
	if a.waiting == 0 {
		a.cancel()
		// The next caller begins another one.
		if l.attempt == a {
			l.attempt = nil
		}
	}
}

// connect makes one attempt, after the pause that is due.
func (l *link) connect(ctx context.Context, a *attempt) {
	defer l.running.Done()
	defer a.cancel()
	l.mu.Lock()
	pause := time.Until(l.backoff.notBefore)
	l.mu.Unlock()
	c, err := l.dialAfter(ctx, pause)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(a.done)
	if l.attempt == a {
		l.attempt = nil
	}
	if c != nil && (l.closed || l.conn != nil) {
		_ = c.sock.Close()
	}
	switch {
	case l.closed:
		a.err = ErrClosed
		return
	case l.conn != nil:
		// Its callers gave it up, and another attempt was faster.
		a.conn = l.conn
		return
	case err != nil:
		a.err = err
		if ctx.Err() == nil {
			l.lost(err)
		}
		return
	}
	c.notify = l.leaveConn
	l.conn, a.conn, l.last = c, c, nil
	l.open[c] = struct{}{}
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		c.read()
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
	}()
}

func (l *link) dialAfter(ctx context.Context, pause time.Duration) (*conn, error) {
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// A daemon that takes longer to say hello could not serve a call in time either.
	limit := l.options.timeout
	if limit < defaultTimeout {
		limit = defaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := dial(limited, l.options.path)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = errNoHello
	}
	return c, err
}

// lost notes that an attempt failed or a connection ended. The caller holds the lock.
func (l *link) lost(why error) {
	var retryAfter time.Duration
	var refusal *RefusedError
	if errors.As(why, &refusal) {
		retryAfter = refusal.RetryAfter
	}
	l.backoff.lost(time.Now(), jitter(), retryAfter)
	l.last = why
}

// leaveConn makes the next call connect again. It is called once more if the daemon then says why it ended the
// connection.
func (l *link) leaveConn(c *conn, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refusal *RefusedError
	switch {
	case l.conn == c:
		l.drop(why)
	case l.conn == nil && errors.As(why, &refusal):
		l.last = why
		if notBefore := time.Now().Add(refusal.RetryAfter); notBefore.After(l.backoff.notBefore) {
			l.backoff.notBefore = notBefore
		}
	}
}

// drop makes the next call connect again. The caller holds the lock.
func (l *link) drop(why error) {
	var idle bool
	l.backoff.answered, idle = l.conn.record()
	l.conn = nil
	l.lost(why)
	if idle {
		// The daemon closes connections that nobody uses. That is no failure.
		l.last = nil
	}
}

// lastFailure is why there is no connection.
func (l *link) lastFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return errNoHello
	}
	return l.last
}

// shut closes everything and waits for the goroutines.
func (l *link) shut() {
	l.mu.Lock()
	l.closed = true
	open := make([]*conn, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	l.cancel()
	for _, c := range open {
		c.close(ErrClosed, 0)
	}
	l.running.Wait()
}

// isConnected reports whether there is a connection that takes requests.
func (l *link) isConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

// run runs a goroutine that ends when the client is closed. It returns false if the client is closed already.
func (l *link) run(body func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		body()
	}()
	return true
}
