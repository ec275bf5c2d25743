// Package wire is the protocol of leafd as bytes: version 1, as docs/protocol.md describes it. It encodes the
// requests that package leafd sends and decodes the replies that it understands. It opens no socket and reads no
// clock.
//
// Applications do not need it. It is public for tools and tests, and follows the protocol, not the API of package
// leafd.
package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	// Version is the protocol version of this package.
	Version = 1
	// MaxTagChars is the limit on the characters (Unicode scalar values) of a tag.
	MaxTagChars = 128
	// MaxResponseLen is the limit on the body of a response, in bytes.
	MaxResponseLen = 256 * 1024
	// HeaderLen is the length of a frame's header, in bytes.
	HeaderLen = 4
	// Unsolicited is the ID of responses that answer no request: Goodbye, and errors about the connection.
	Unsolicited = 0
)

// Magic is the first field of every Hello.
var Magic = [4]byte{'L', 'E', 'A', 'F'}

// The numbers of the calls.
const (
	callHello = iota
	callSegment
	callSnowflake
	callTime
	callStatus
)

// AppendHello appends the frame of a Hello request.
func AppendHello(out []byte, id uint64, magic [4]byte, version uint16) []byte {
	out = appendHead(out, id, callHello, 6)
	out = append(out, magic[:]...)
	return binary.LittleEndian.AppendUint16(out, version)
}

// AppendSegment appends the frame of a request for count IDs of a tag. timeoutMS bounds how long the daemon lets
// it wait; 0 stands for the daemon's default.
func AppendSegment(out []byte, id uint64, tag string, count, timeoutMS uint32) []byte {
	out = appendHead(out, id, callSegment, 16+len(tag))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(tag)))
	out = append(out, tag...)
	out = binary.LittleEndian.AppendUint32(out, count)
	return binary.LittleEndian.AppendUint32(out, timeoutMS)
}

// AppendSnowflake appends the frame of a request for count snowflake IDs. For timeoutMS see [AppendSegment].
func AppendSnowflake(out []byte, id uint64, count, timeoutMS uint32) []byte {
	out = appendHead(out, id, callSnowflake, 8)
	out = binary.LittleEndian.AppendUint32(out, count)
	return binary.LittleEndian.AppendUint32(out, timeoutMS)
}

// AppendTime appends the frame of a Time request.
func AppendTime(out []byte, id uint64) []byte {
	return appendHead(out, id, callTime, 0)
}

// AppendStatus appends the frame of a Status request.
func AppendStatus(out []byte, id uint64) []byte {
	return appendHead(out, id, callStatus, 0)
}

// appendHead appends the header, the request ID and the number of the call, whose fields take fields bytes.
func appendHead(out []byte, id uint64, call uint32, fields int) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(12+fields))
	out = binary.LittleEndian.AppendUint64(out, id)
	return binary.LittleEndian.AppendUint32(out, call)
}

// SplitFrame returns the body of the first frame in buf and what follows it. ok is false while the frame is not
// complete. A length above [MaxResponseLen] is an error as soon as the header is there.
func SplitFrame(buf []byte) (body, rest []byte, ok bool, err error) {
	size, err := FrameLen(buf)
	if err != nil || size == 0 || len(buf) < size {
		return nil, buf, false, err
	}
	return buf[HeaderLen:size:size], buf[size:], true, nil
}

// FrameLen returns the length of the first frame in buf, header included; 0 if the header is not complete.
func FrameLen(buf []byte) (int, error) {
	if len(buf) < HeaderLen {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(buf)
	if length > MaxResponseLen {
		return 0, fmt.Errorf("a frame of %d bytes is above the limit of %d", length, MaxResponseLen)
	}
	return HeaderLen + int(length), nil
}
