package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

type vector struct {
	Name      string
	Direction string
	Message   string
	ID        string
	Fields    json.RawMessage
	Hex       []string
}

func (v vector) frame(t *testing.T) []byte {
	t.Helper()
	frame, err := hex.DecodeString(strings.ReplaceAll(strings.Join(v.Hex, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func (v vector) id(t *testing.T) uint64 {
	t.Helper()
	id, err := strconv.ParseUint(v.ID, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// vectors reads protocol/vectors.json of the source tree, which the module does not hold.
func vectors(t *testing.T, direction string) []vector {
	t.Helper()
	text, err := os.ReadFile("../../../protocol/vectors.json")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("protocol/vectors.json is part of the source tree only")
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var found []vector
	for _, one := range file.Vectors {
		if one.Direction == direction {
			found = append(found, one)
		}
	}
	if len(found) < 20 {
		t.Fatalf("only %d vectors", len(found))
	}
	return found
}

func TestRequestsAreEncodedByteForByte(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors(t, "request") {
		var fields struct {
			Magic, Tag string
			Version    uint16
			Count      uint32
			TimeoutMS  uint32 `json:"timeout_ms"`
		}
		var got []byte
		id := v.id(t)
		switch v.Message {
		case "Hello", "Segment", "Snowflake", "Time", "Status":
			if err := json.Unmarshal(v.Fields, &fields); err != nil {
				t.Fatal(err)
			}
		default:
			continue
		}
		switch v.Message {
		case "Hello":
			magic, _ := hex.DecodeString(fields.Magic)
			got = AppendHello(nil, id, *(*[4]byte)(magic), fields.Version)
		case "Segment":
			got = AppendSegment(nil, id, fields.Tag, fields.Count, fields.TimeoutMS)
		case "Snowflake":
			got = AppendSnowflake(nil, id, fields.Count, fields.TimeoutMS)
		case "Time":
			got = AppendTime(nil, id)
		case "Status":
			got = AppendStatus(nil, id)
		}
		seen[v.Message] = true
		if want := v.frame(t); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, not %x", v.Name, got, want)
		}
	}
	if len(seen) != 5 {
		t.Errorf("only %v have vectors", seen)
	}
}

// fieldsOf writes a reply as vectors.json does.
func fieldsOf(reply Reply) any {
	decimal := func(value uint64) string { return strconv.FormatUint(value, 10) }
	run := func(run Run) any { return map[string]any{"first": decimal(run.First), "count": run.Count} }
	switch reply := reply.(type) {
	case Error:
		return map[string]any{"code": reply.Code, "retry_after_ms": reply.RetryAfterMS,
			"detail": decimal(reply.Detail), "message": reply.Message}
	case Hello:
		return map[string]any{"version": reply.Version, "max_count": reply.MaxCount, "max_in_flight": reply.MaxInFlight}
	case IDs:
		more := []any{}
		for _, next := range reply.More {
			more = append(more, run(next))
		}
		return map[string]any{"first": run(reply.First), "more": more}
	case Time:
		return map[string]any{"unix_ms": decimal(reply.UnixMS)}
	case *Status:
		return reply
	}
	return map[string]any{}
}

func TestRepliesAreDecodedFieldForField(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors(t, "response") {
		body, rest, ok, err := SplitFrame(v.frame(t))
		if err != nil || !ok || len(rest) > 0 {
			t.Fatalf("%s: not one frame: %v", v.Name, err)
		}
		id, reply, err := DecodeResponse(body)
		if v.Message == "Loan" || v.Message == "Forecasts" || strings.HasPrefix(v.Message, "Public") {
			if err == nil {
				t.Errorf("%s is an unknown reply", v.Name)
			}
			continue
		}
		if v.Message == "Tags" || v.Message == "Workers" {
			if !errors.Is(err, ErrUnsupportedReply) {
				t.Errorf("%s: %v", v.Name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		seen[v.Message] = true
		if reply.Name() != v.Message || id != v.id(t) {
			t.Errorf("%s: %s with ID %d", v.Name, reply.Name(), id)
		}
		text, err := json.Marshal(fieldsOf(reply))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if json.Unmarshal(text, &got) != nil || json.Unmarshal(v.Fields, &want) != nil {
			t.Fatal(v.Name)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%s\nnot\n%s", v.Name, text, v.Fields)
		}

		for cut := 0; cut < len(body); cut++ {
			if _, _, err := DecodeResponse(body[:cut:cut]); err == nil {
				t.Errorf("%s: decodes although it ends after %d bytes", v.Name, cut)
			}
		}
		if _, _, err := DecodeResponse(append(append([]byte{}, body...), 0)); err == nil {
			t.Errorf("%s: decodes although a byte is left over", v.Name)
		}
	}
	if len(seen) != 6 {
		t.Errorf("only %v have vectors", seen)
	}
}

func TestDamagedRepliesAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"unknown reply":           "0100000000000000" + "09000000",
		"unknown reply, negative": "0100000000000000" + "ffffffff",
		"a list longer than the body": "0100000000000000" + "02000000" + "0100000000000000" + "01000000" +
			"ffffffffffffffff",
		"a text longer than the body": "0100000000000000" + "00000000" + "ca00" + "00000000" + "0000000000000000" +
			"0200000000000000" + "61",
		"invalid UTF-8": "0100000000000000" + "00000000" + "ca00" + "00000000" + "0000000000000000" +
			"0100000000000000" + "ff",
	} {
		raw, err := hex.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, reply, err := DecodeResponse(raw); err == nil || reply != nil {
			t.Errorf("%s: %v", name, reply)
		}
	}
}

func TestAnyBytesDecodeWithoutPanic(t *testing.T) {
	for _, v := range vectors(t, "response") {
		body := v.frame(t)[HeaderLen:]
		for place := range body {
			for _, value := range []byte{0, 1, 2, 0x7f, 0x80, 0xff} {
				damaged := append([]byte{}, body...)
				damaged[place] = value
				_, _, _ = DecodeResponse(damaged)
			}
		}
	}
}

func TestTheLengthIsCheckedBeforeTheBodyArrives(t *testing.T) {
	for _, header := range [][]byte{{0, 4, 0, 1}, {0xff, 0xff, 0xff, 0xff}} {
		if _, _, _, err := SplitFrame(header); err == nil {
			t.Errorf("%x is accepted", header)
		}
	}
	if size, err := FrameLen([]byte{0, 4, 0, 0}); size != HeaderLen+MaxResponseLen || err != nil {
		t.Error(size, err)
	}
	for _, part := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 1}} {
		if _, rest, ok, err := SplitFrame(part); ok || err != nil || len(rest) != len(part) {
			t.Errorf("%x: %v %v", part, ok, err)
		}
	}
	if body, _, ok, err := SplitFrame([]byte{0, 0, 0, 0}); !ok || err != nil || len(body) != 0 {
		t.Error("an empty frame is a frame")
	}
}
