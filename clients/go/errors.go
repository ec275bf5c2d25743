package leafd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"leafd.invalid/leafd/wire"
)

// The kinds of errors, for [errors.Is]. Whatever the error, the caller got no ID.
var (
	// ErrRefused: the daemon answered with an error. [errors.As] gives the [*RefusedError].
	ErrRefused = errors.New("leafd refused")
	// ErrUnavailable: there was no connection when the deadline passed, or this user may not open the socket.
	ErrUnavailable = errors.New("leafd is not reachable")
	// ErrDeadline: the client was connected, but no answer came before the deadline.
	ErrDeadline = errors.New("leafd did not answer in time")
	// ErrProtocol: the peer is not a leafd of a known version, or the stream is damaged.
	ErrProtocol = errors.New("the peer broke the protocol of leafd")
	// ErrInvalid: an argument is invalid. Nothing was sent.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed: the client or the pool was closed.
	ErrClosed = errors.New("the leafd client is closed")
)

// RefusedError is an error that the daemon answered with. It matches [ErrRefused] and its [Code].
type RefusedError struct {
	// Code is the number of the error.
	Code Code
	// RetryAfter is how long to wait before the next try; 0 if that is unknown.
	RetryAfter time.Duration
	// Detail is a number that belongs to the code, such as a limit; 0 if the code has none.
	Detail uint64
	// Message is for logs. Do not parse it: its wording may change.
	Message string
}

func refused(reply wire.Error) *RefusedError {
	return &RefusedError{
		Code:       Code(reply.Code),
		RetryAfter: time.Duration(reply.RetryAfterMS) * time.Millisecond,
		Detail:     reply.Detail,
		Message:    reply.Message,
	}
}

// Name is the name of the code, as in UnknownTag; Unknown if this version of the package does not list it.
func (err *RefusedError) Name() string { return err.Code.Name() }

// Error implements error.
func (err *RefusedError) Error() string {
	return fmt.Sprintf("leafd refused: %s: %s", err.Code, err.Message)
}

// Is matches [ErrRefused] and the code.
func (err *RefusedError) Is(target error) bool {
	return target == ErrRefused || target == error(err.Code)
}

// Temporary reports whether the same call may succeed later without anyone changing anything.
func (err *RefusedError) Temporary() bool { return err.Code.Temporary() }

// UnavailableError matches [ErrUnavailable], and [context.DeadlineExceeded] if the deadline of the context ended
// the call.
type UnavailableError struct {
	// Path is the socket that was tried.
	Path string
	// Err is why the last attempt to connect failed, or why the connection ended.
	Err error

	byContext bool
}

// Error implements error.
func (err *UnavailableError) Error() string {
	return fmt.Sprintf("leafd is not reachable at %s: %v", err.Path, err.Err)
}

// Unwrap returns the cause.
func (err *UnavailableError) Unwrap() error { return err.Err }

// Is matches [ErrUnavailable] and, if it is true, [context.DeadlineExceeded].
func (err *UnavailableError) Is(target error) bool {
	return target == ErrUnavailable || err.byContext && target == context.DeadlineExceeded
}

// Temporary reports whether the same call may succeed later without anyone changing anything: not if this user
// may not open the socket.
func (err *UnavailableError) Temporary() bool { return !errors.Is(err.Err, fs.ErrPermission) }

// DeadlineError matches [ErrDeadline], and [context.DeadlineExceeded] if the deadline of the context ended the
// call, not the client's timeout.
type DeadlineError struct {
	// Call is the name of the call in docs/protocol.md.
	Call string
	// Timeout is how long the call lasted.
	Timeout time.Duration

	byContext bool
}

// Error implements error.
func (err *DeadlineError) Error() string {
	return fmt.Sprintf("leafd did not answer %s within %v", err.Call, err.Timeout)
}

// Is matches [ErrDeadline] and, if it is true, [context.DeadlineExceeded].
func (err *DeadlineError) Is(target error) bool {
	return target == ErrDeadline || err.byContext && target == context.DeadlineExceeded
}

// Temporary is true.
func (err *DeadlineError) Temporary() bool { return true }

// ProtocolError matches [ErrProtocol]. Nothing in the offending message was used.
type ProtocolError struct {
	// Reason says how the peer broke the protocol.
	Reason string
}

func protocolErrorf(format string, args ...any) *ProtocolError {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (err *ProtocolError) Error() string {
	return "the peer is not a leafd of a known version: " + err.Reason
}

// Is matches [ErrProtocol].
func (err *ProtocolError) Is(target error) bool { return target == ErrProtocol }

// InvalidError matches [ErrInvalid].
type InvalidError struct {
	// Reason says which argument is invalid and what would be valid.
	Reason string
}

func invalidf(format string, args ...any) *InvalidError {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (err *InvalidError) Error() string { return "leafd: " + err.Reason }

// Is matches [ErrInvalid].
func (err *InvalidError) Is(target error) bool { return target == ErrInvalid }

// IsTemporary reports whether the same call may succeed later without anyone changing anything. It is false for
// errors of other packages.
func IsTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}
