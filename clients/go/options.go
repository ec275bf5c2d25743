package leafd

import (
	"strings"
	"time"
)

const (
	defaultTimeout    = 5 * time.Second
	defaultBackoffMin = 5 * time.Millisecond
	defaultBackoffMax = 500 * time.Millisecond

	// maxTimeout is the longest timeout. Longer ones are lowered to it.
	maxTimeout = 24 * time.Hour

	// maxPathLen is the longest path that fits a socket address.
	maxPathLen = 107
)

// Option is an option of [New].
type Option func(*options) error

type options struct {
	path                   string
	timeout                time.Duration
	backoffMin, backoffMax time.Duration
}

// WithSocket names the daemon's socket. Without it, the client uses [DefaultSocketPath].
func WithSocket(path string) Option {
	return func(o *options) error {
		o.path = path
		return checkPath(path)
	}
}

// WithTimeout sets how long a call may last if its context has no earlier deadline: 5 s by default, at most 24 h.
// It covers connecting, waiting and repeating. See also [Client.WithTimeout].
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) error {
		if timeout <= 0 {
			return invalidf("the timeout is %v; it has to be above 0", timeout)
		}
		o.timeout = cut(timeout)
		return nil
	}
}

// WithBackoff sets the pauses between attempts to connect: from min (5 ms by default, at least 1 ms), doubling up to
// max (500 ms by default). Random jitter shortens each by up to half. The first attempt after a working connection is
// immediate.
func WithBackoff(min, max time.Duration) Option {
	return func(o *options) error {
		if min < time.Millisecond || max < min {
			return invalidf("the back-off is %v to %v; it has to be 1ms or more, and must not fall", min, max)
		}
		o.backoffMin, o.backoffMax = cut(min), cut(max)
		return nil
	}
}

func cut(timeout time.Duration) time.Duration {
	if timeout > maxTimeout {
		return maxTimeout
	}
	return timeout
}

func checkPath(path string) error {
	switch {
	case path == "":
		return invalidf("the path of the socket is empty")
	case strings.IndexByte(path, 0) >= 0:
		return invalidf("the path of the socket holds a NUL byte")
	case len(path) > maxPathLen:
		return invalidf("the path of the socket has %d bytes; at most %d are possible", len(path), maxPathLen)
	}
	return nil
}
