package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The numbers of the replies.
const (
	replyError = iota
	replyHello
	replyIDs
	replyTime
	replyStatus
	replyTags
	replyGoodbye
	replyWorkers
)

// Reply is one of [Error], [Hello], [IDs], [Time], [*Status] and [Goodbye].
type Reply interface {
	// Name is the name of the reply in docs/protocol.md.
	Name() string
}

// Error says that a call failed, or with the request ID 0 that the connection did.
type Error struct {
	Code         uint16
	RetryAfterMS uint32
	Detail       uint64
	Message      string
}

// Hello completes the handshake.
type Hello struct {
	Version     uint16
	MaxCount    uint32
	MaxInFlight uint32
}

// Run stands for the IDs First, First + 1, … First + Count − 1. The values are as the daemon sent them: package
// leafd checks their range.
type Run struct {
	First uint64
	Count uint32
}

// IDs are the IDs of First, then those of each run in More.
type IDs struct {
	First Run
	More  []Run
}

// Time is the clock of the daemon's host, in milliseconds since 1970.
type Time struct {
	UnixMS uint64
}

// Goodbye says that the daemon is stopping.
type Goodbye struct{}

// Name implements [Reply].
func (Error) Name() string { return "Error" }

// Name implements [Reply].
func (Hello) Name() string { return "Hello" }

// Name implements [Reply].
func (IDs) Name() string { return "Ids" }

// Name implements [Reply].
func (Time) Name() string { return "Time" }

// Name implements [Reply].
func (*Status) Name() string { return "Status" }

// Name implements [Reply].
func (Goodbye) Name() string { return "Goodbye" }

// ErrUnsupportedReply means that the reply is part of the protocol, but answers an administrative call, which this
// package does not have.
var ErrUnsupportedReply = errors.New("a reply to an administrative call")

// runLen is the length of a Run in bytes.
const runLen = 12

// DecodeResponse decodes the body of a response. The body has to hold exactly one message.
func DecodeResponse(body []byte) (id uint64, reply Reply, err error) {
	in := reader{rest: body}
	id = in.u64()
	switch number := in.u32(); {
	case in.err != nil:
	case number == replyError:
		reply = Error{Code: in.u16(), RetryAfterMS: in.u32(), Detail: in.u64(), Message: in.str()}
	case number == replyHello:
		reply = Hello{Version: in.u16(), MaxCount: in.u32(), MaxInFlight: in.u32()}
	case number == replyIDs:
		reply = IDs{First: in.run(), More: in.runs()}
	case number == replyTime:
		reply = Time{UnixMS: in.u64()}
	case number == replyStatus:
		reply = in.status()
	case number == replyGoodbye:
		reply = Goodbye{}
	case number == replyTags || number == replyWorkers:
		return id, nil, ErrUnsupportedReply
	default:
		return id, nil, fmt.Errorf("unknown reply %d", number)
	}
	if in.err == nil && len(in.rest) > 0 {
		in.err = fmt.Errorf("%d bytes left over after the reply", len(in.rest))
	}
	if in.err != nil {
		return id, nil, in.err
	}
	return id, reply, nil
}

// reader takes values from the front of a body. After its first error it returns zero values.
type reader struct {
	rest []byte
	err  error
}

func (in *reader) take(count int) []byte {
	if in.err != nil {
		return nil
	}
	if len(in.rest) < count {
		in.fail(errors.New("the body ends within a field"))
		return nil
	}
	taken := in.rest[:count]
	in.rest = in.rest[count:]
	return taken
}

func (in *reader) fail(err error) {
	if in.err == nil {
		in.err = err
		in.rest = nil
	}
}

func (in *reader) u8() byte {
	if bytes := in.take(1); bytes != nil {
		return bytes[0]
	}
	return 0
}

func (in *reader) u16() uint16 {
	if bytes := in.take(2); bytes != nil {
		return binary.LittleEndian.Uint16(bytes)
	}
	return 0
}

func (in *reader) u32() uint32 {
	if bytes := in.take(4); bytes != nil {
		return binary.LittleEndian.Uint32(bytes)
	}
	return 0
}

func (in *reader) u64() uint64 {
	if bytes := in.take(8); bytes != nil {
		return binary.LittleEndian.Uint64(bytes)
	}
	return 0
}

// length reads the length of a text or a list whose elements have at least size bytes each.
func (in *reader) length(size int) int {
	length := in.u64()
	if length > uint64(len(in.rest)/size) {
		in.fail(fmt.Errorf("a length of %d is more than the body holds", length))
		return 0
	}
	return int(length)
}

func (in *reader) str() string {
	bytes := in.take(in.length(1))
	if !utf8.Valid(bytes) {
		in.fail(errors.New("a text is not valid UTF-8"))
		return ""
	}
	return string(bytes)
}

func (in *reader) some() bool {
	tag := in.u8()
	if tag > 1 {
		in.fail(fmt.Errorf("an option begins with byte %d", tag))
	}
	return tag == 1
}

func (in *reader) optU64() *uint64 {
	if !in.some() {
		return nil
	}
	value := in.u64()
	return &value
}

func (in *reader) optI64() *int64 {
	if !in.some() {
		return nil
	}
	value := int64(in.u64())
	return &value
}

func (in *reader) run() Run {
	return Run{First: in.u64(), Count: in.u32()}
}

func (in *reader) runs() []Run {
	length := in.length(runLen)
	if length == 0 {
		return nil
	}
	runs := make([]Run, length)
	for i := range runs {
		runs[i] = in.run()
	}
	return runs
}
