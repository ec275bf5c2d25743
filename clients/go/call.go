package leafd

import (
	"time"
	"unicode"
	"unicode/utf8"

	"leafd.invalid/leafd/wire"
)

// request is a call with valid arguments. It can be sent more than once.
type request struct {
	name  string
	tag   string
	count int
	// encode appends the frame. timeoutMS is for the daemon.
	encode func(r *request, out []byte, id uint64, timeoutMS uint32) []byte
}

func segment(tag string, count int) (*request, error) {
	if err := checkTag(tag); err != nil {
		return nil, err
	}
	if err := checkCount(count); err != nil {
		return nil, err
	}
	return &request{name: "Segment", tag: tag, count: count, encode: encodeSegment}, nil
}

func snowflake(count int) (*request, error) {
	if err := checkCount(count); err != nil {
		return nil, err
	}
	return &request{name: "Snowflake", count: count, encode: encodeSnowflake}, nil
}

var (
	timeRequest = &request{name: "Time", encode: func(_ *request, out []byte, id uint64, _ uint32) []byte {
		return wire.AppendTime(out, id)
	}}
	statusRequest = &request{name: "Status", encode: func(_ *request, out []byte, id uint64, _ uint32) []byte {
		return wire.AppendStatus(out, id)
	}}
)

func encodeSegment(r *request, out []byte, id uint64, timeoutMS uint32) []byte {
	return wire.AppendSegment(out, id, r.tag, uint32(r.count), timeoutMS)
}

func encodeSnowflake(r *request, out []byte, id uint64, timeoutMS uint32) []byte {
	return wire.AppendSnowflake(out, id, uint32(r.count), timeoutMS)
}

func checkTag(tag string) error {
	if tag == "" {
		return invalidf("the tag is empty; a tag has 1 to %d characters", wire.MaxTagChars)
	}
	if !utf8.ValidString(tag) {
		return invalidf("the tag is not valid UTF-8")
	}
	// A character takes at least one byte, so short tags need no counting.
	if len(tag) > wire.MaxTagChars {
		if chars := utf8.RuneCountInString(tag); chars > wire.MaxTagChars {
			return invalidf("the tag has %d characters; at most %d are allowed", chars, wire.MaxTagChars)
		}
	}
	for _, char := range tag {
		if unicode.IsControl(char) {
			return invalidf("the tag contains the control character %U; remove it", char)
		}
	}
	return nil
}

func checkCount(count int) error {
	if count < 1 {
		return invalidf("the count is %d; request 1 ID or more", count)
	}
	return nil
}

// daemonTimeoutMS is the timeout to send with a request: a little less than the time left, so that the daemon's
// error, which names the cause, arrives first. Never 0, which stands for the daemon's default.
func daemonTimeoutMS(left time.Duration) uint32 {
	margin := left / 10
	if margin > 50*time.Millisecond {
		margin = 50 * time.Millisecond
	}
	// A timeout has at most 24 h, so it fits.
	if ms := (left - margin).Milliseconds(); ms > 1 {
		return uint32(ms)
	}
	return 1
}
