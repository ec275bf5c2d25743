package leafd

import (
	"context"
	"errors"
	"math"
	"time"

	"leafd.invalid/leafd/wire"
)

// Client is a client of leafd. Any number of goroutines may use it at once; they share one connection. It connects at
// the first call, and again when the connection is lost. It then repeats the calls that got no answer: a restart of
// the daemon fails no call, and no ID comes twice.
//
// A call ends at the deadline of its context or at the client's timeout, whichever comes first.
type Client struct {
	link    *link
	timeout time.Duration
}

// Status is the state of a daemon.
type Status = wire.Status

// New makes a client. It connects at the first call; [Client.Close] ends it.
func New(with ...Option) (*Client, error) {
	o := options{timeout: defaultTimeout, backoffMin: defaultBackoffMin, backoffMax: defaultBackoffMax}
	for _, option := range with {
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	if o.path == "" {
		o.path = DefaultSocketPath()
		if err := checkPath(o.path); err != nil {
			return nil, err
		}
	}
	return &Client{link: newLink(o), timeout: o.timeout}, nil
}

// WithTimeout returns a client with another timeout that shares the connection, and is closed with it. A timeout above
// 24 h is lowered to 24 h; at 0 or below, every call fails at once.
func (client *Client) WithTimeout(timeout time.Duration) *Client {
	return &Client{link: client.link, timeout: cut(timeout)}
}

// SocketPath is the path of the daemon's socket.
func (client *Client) SocketPath() string { return client.link.options.path }

// Close closes the connection and waits until the client's goroutines have ended. Calls in flight, and later ones, get
// [ErrClosed]. It closes the client's pools as well. The error is always nil.
func (client *Client) Close() error {
	client.link.shut()
	return nil
}

// Next gets the next ID of a tag. A tag has 1 to 128 characters, none of them a control character.
//
// Errors: [ErrRefused] (expect [CodeUnknownTag], [CodeForbidden] and [CodeStoreUnavailable]), [ErrUnavailable],
// [ErrDeadline], [ErrProtocol], [ErrInvalid], [ErrClosed], and [context.Canceled].
func (client *Client) Next(ctx context.Context, tag string) (int64, error) {
	ids, err := client.NextMany(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ids.First(), nil
}

// NextMany gets count IDs of a tag, from 1 to the daemon's limit (100,000 by default), in one round trip. More is
// [CodeBadCount] with that limit as the detail. For other errors see [Client.Next].
func (client *Client) NextMany(ctx context.Context, tag string, count int) (IDs, error) {
	r, err := segment(tag, count)
	if err != nil {
		return IDs{}, err
	}
	return client.ids(ctx, r)
}

// Snowflake gets a snowflake ID. [Layout.Decode] splits it into its parts.
//
// Errors: those of [Client.Next]. Expect [CodeClockBackwards], [CodeWorkerUnavailable] and [CodeNotConfigured].
func (client *Client) Snowflake(ctx context.Context) (int64, error) {
	ids, err := client.Snowflakes(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ids.First(), nil
}

// Snowflakes gets count snowflake IDs; see [Client.NextMany].
func (client *Client) Snowflakes(ctx context.Context, count int) (IDs, error) {
	r, err := snowflake(count)
	if err != nil {
		return IDs{}, err
	}
	return client.ids(ctx, r)
}

// Time reads the clock of the daemon's host, to the millisecond.
func (client *Client) Time(ctx context.Context) (time.Time, error) {
	reply, err := client.call(ctx, timeRequest, false)
	if err != nil {
		return time.Time{}, err
	}
	clock, ok := reply.(wire.Time)
	if !ok {
		return time.Time{}, unexpected("Time", reply)
	}
	if clock.UnixMS > math.MaxInt64 {
		return time.Time{}, protocolErrorf("it sent the time %d ms since 1970", clock.UnixMS)
	}
	return time.UnixMilli(int64(clock.UnixMS)), nil
}

// Status gets the state of the daemon: connections, store and snowflake IDs.
func (client *Client) Status(ctx context.Context) (*Status, error) {
	reply, err := client.call(ctx, statusRequest, false)
	if err != nil {
		return nil, err
	}
	status, ok := reply.(*wire.Status)
	if !ok {
		return nil, unexpected("Status", reply)
	}
	return status, nil
}

func (client *Client) ids(ctx context.Context, r *request) (IDs, error) {
	reply, err := client.call(ctx, r, false)
	if err != nil {
		return IDs{}, err
	}
	return idsOf(reply, r.count)
}

func idsOf(reply wire.Reply, count int) (IDs, error) {
	ids, ok := reply.(wire.IDs)
	if !ok {
		return IDs{}, unexpected("Ids", reply)
	}
	return checkIDs(ids, count)
}

func unexpected(want string, got wire.Reply) error {
	return protocolErrorf("it answered with %s instead of %s", got.Name(), want)
}

// call sends a request, on new connections if need be, until an answer arrives or the deadline passes. impatient is
// for pools: it does not wait for a daemon that cannot be reached, but tries one new connection.
func (client *Client) call(ctx context.Context, r *request, impatient bool) (wire.Reply, error) {
	w := newWait(ctx, client.timeout)
	defer w.stop()
	caller := make(chan answer, 1)
	for lost := 0; ; lost++ {
		c, err := client.link.connection(w, impatient)
		if err != nil {
			return nil, client.failure(w, r, err)
		}
		if r.count > c.maxCount {
			return nil, &RefusedError{Code: CodeBadCount, Detail: uint64(c.maxCount),
				Message: "the count is above the daemon's limit; ask for less, in several calls"}
		}
		result, err := c.exchange(w, r, caller)
		if err != nil {
			return nil, client.failure(w, r, err)
		}
		if result.lost == nil {
			if refusal, isError := result.reply.(wire.Error); isError {
				return nil, refused(refusal)
			}
			return result.reply, nil
		}
		if isFatal(result.lost) || impatient && lost > 0 {
			return nil, client.failure(w, r, result.lost)
		}
	}
}

// exchange sends the request once it has room, and waits for the answer.
func (c *conn) exchange(w *wait, r *request, caller chan answer) (answer, error) {
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-c.closing:
			return answer{lost: c.notSent()}, nil
		case <-w.over():
			return answer{}, w.ended(true)
		case <-w.ctx.Done():
			return answer{}, w.ended(true)
		}
	}
	send := c.send
	if c.takeTurn(w.deadline) {
		send = c.lead
	}
	id, ok := send(r, w.deadline, caller)
	if !ok {
		return answer{lost: c.notSent()}, nil
	}
	// An answer that is there wins over the deadline.
	select {
	case result := <-caller:
		return result, nil
	default:
	}
	select {
	case result := <-caller:
		return result, nil
	case <-w.over():
	case <-w.ctx.Done():
	}
	err := w.ended(true)
	c.abandon(id, caller, !errors.Is(err, context.Canceled))
	select {
	case result := <-caller:
		// It arrived at the last moment.
		return result, nil
	default:
		return answer{}, err
	}
}

// failure is the error that a caller gets.
func (client *Client) failure(w *wait, r *request, err error) error {
	var timeout *timeoutError
	var refusal *RefusedError
	switch {
	case errors.As(err, &timeout) && timeout.connected:
		return &DeadlineError{Call: r.name, Timeout: w.timeout, byContext: w.byContext}
	case errors.As(err, &timeout):
		err = client.link.lastFailure()
		if errors.As(err, &refusal) {
			return refusal
		}
		return &UnavailableError{Path: client.SocketPath(), Err: err, byContext: w.byContext}
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrClosed), errors.Is(err, context.Canceled),
		errors.As(err, &refusal):
		return err
	default:
		return &UnavailableError{Path: client.SocketPath(), Err: err}
	}
}

// timeoutError says that the deadline passed, and whether there was a connection.
type timeoutError struct{ connected bool }

func (*timeoutError) Error() string { return "the deadline passed" }

// wait is how long a call may last.
type wait struct {
	ctx      context.Context
	deadline time.Time
	timeout  time.Duration
	// byContext: the deadline is that of the context.
	byContext bool
	timer     *time.Timer
}

func newWait(ctx context.Context, timeout time.Duration) *wait {
	now := time.Now()
	w := &wait{ctx: ctx, deadline: now.Add(timeout), timeout: timeout}
	if at, ok := ctx.Deadline(); ok && at.Before(w.deadline) {
		w.deadline, w.timeout, w.byContext = at, at.Sub(now), true
	}
	return w
}

// over is a channel that delivers once, at the deadline.
func (w *wait) over() <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(w.deadline))
	}
	return w.timer.C
}

func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// ended is the error of a call that must not wait any longer.
func (w *wait) ended(connected bool) error {
	if err := w.ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return &timeoutError{connected: connected}
}

// passed returns the error of [wait.ended] if the call must not wait any longer.
func (w *wait) passed(connected bool) error {
	if w.ctx.Err() != nil || !time.Now().Before(w.deadline) {
		return w.ended(connected)
	}
	return nil
}

// endedWith is the error of another attempt, for a call whose deadline has passed.
func (w *wait) endedWith(err error) error {
	if !w.byContext {
		return err
	}
	switch err := err.(type) {
	case *UnavailableError:
		return &UnavailableError{Path: err.Path, Err: err.Err, byContext: true}
	case *DeadlineError:
		return &DeadlineError{Call: err.Call, Timeout: err.Timeout, byContext: true}
	}
	return err
}
