// The driver of the Go client for the conformance suite: one JSON object per line in, one out. See the README of
// tests/conformance.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"leafd.invalid/leafd"
	"leafd.invalid/leafd/wire"
)

// line is one request. Fields that an op does not use are absent.
type line struct {
	ID           int64           `json:"id"`
	Op           string          `json:"op"`
	Client       string          `json:"client"`
	Pool         string          `json:"pool"`
	Socket       *string         `json:"socket"`
	TimeoutMS    *int64          `json:"timeout_ms"`
	BackoffMinMS *int64          `json:"backoff_min_ms"`
	BackoffMaxMS *int64          `json:"backoff_max_ms"`
	MinChunk     *int            `json:"min_chunk"`
	MaxChunk     *int            `json:"max_chunk"`
	MaxAgeMS     *int64          `json:"max_age_ms"`
	Tag          *string         `json:"tag"`
	Count        int             `json:"count"`
	Target       int64           `json:"target"`
	Message      string          `json:"message"`
	RequestID    string          `json:"request_id"`
	Fields       json.RawMessage `json:"fields"`
	Hex          string          `json:"hex"`
	Layout       string          `json:"layout"`
	Value        string          `json:"value"`
	storm
}

type object = map[string]any

// entry is what a name stands for: a client, and the pool that leases over it, if it is a pool.
type entry struct {
	client *leafd.Client
	pool   *leafd.Pool
	// err is why it could not be opened. Calls on the name get it again.
	err error
}

type driver struct {
	out struct {
		sync.Mutex
		*json.Encoder
	}
	mu      sync.Mutex
	clients map[string]entry
	pools   map[string]entry
	// cancels are the lines in flight.
	cancels map[int64]context.CancelFunc
}

func main() {
	d := &driver{clients: map[string]entry{}, pools: map[string]entry{}, cancels: map[int64]context.CancelFunc{}}
	d.out.Encoder = json.NewEncoder(os.Stdout)
	d.out.SetEscapeHTML(false)
	in := bufio.NewReader(os.Stdin)
	var running sync.WaitGroup
	for {
		text, err := in.ReadBytes('\n')
		if text = bytes.TrimSpace(text); len(text) > 0 {
			d.begin(text, &running)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			os.Exit(1)
		}
	}
	d.closeAll()
	running.Wait()
}

// begin handles a line. Calls run beside each other; what makes or closes a client takes effect before the next line.
func (d *driver) begin(text []byte, running *sync.WaitGroup) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		fmt.Fprintf(os.Stderr, "driver: %s: %v\n", text, err)
		os.Exit(1)
	}
	switch l.Op {
	case "open", "pool_open":
		ok, err := d.run(context.Background(), &l)
		d.answer(l.ID, ok, err)
		return
	case "cancel":
		d.mu.Lock()
		if cancel := d.cancels[l.Target]; cancel != nil {
			cancel()
		}
		d.mu.Unlock()
		d.answer(l.ID, object{}, nil)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	d.cancels[l.ID] = cancel
	d.mu.Unlock()
	running.Add(1)
	go func() {
		defer running.Done()
		ok, err := d.run(ctx, &l)
		d.mu.Lock()
		delete(d.cancels, l.ID)
		d.mu.Unlock()
		cancel()
		d.answer(l.ID, ok, err)
	}()
}

func (d *driver) answer(id int64, ok any, err error) {
	reply := object{"id": id, "ok": ok}
	if err != nil {
		reply = object{"id": id, "error": describe(err)}
	}
	d.out.Lock()
	defer d.out.Unlock()
	if err := d.out.Encode(reply); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func describe(err error) object {
	told := object{"message": err.Error(), "temporary": leafd.IsTemporary(err)}
	var refusal *leafd.RefusedError
	switch {
	case errors.As(err, &refusal):
		told["kind"] = "refused"
		told["number"] = uint16(refusal.Code)
		told["name"] = refusal.Name()
		told["retry_after_ms"] = refusal.RetryAfter.Milliseconds()
		told["detail"] = strconv.FormatUint(refusal.Detail, 10)
	case errors.Is(err, leafd.ErrUnavailable):
		told["kind"] = "unavailable"
	case errors.Is(err, leafd.ErrDeadline):
		told["kind"] = "deadline"
	case errors.Is(err, leafd.ErrProtocol):
		told["kind"] = "protocol"
	case errors.Is(err, leafd.ErrInvalid):
		told["kind"] = "invalid"
	case errors.Is(err, leafd.ErrClosed):
		told["kind"] = "closed"
	case errors.Is(err, context.Canceled):
		told["kind"] = "cancelled"
	case errors.Is(err, errUnsupported):
		told["kind"] = "unsupported"
	default:
		told["kind"] = "unexpected"
	}
	return told
}

var errUnsupported = errors.New("the Go driver does not have this op")

func (d *driver) run(ctx context.Context, l *line) (any, error) {
	switch l.Op {
	case "about":
		return object{"language": "go", "mode": "sync", "concurrent": true, "forks": false, "pools": true,
			"cancels": true, "version": runtime.Version()}, nil
	case "socket_path":
		return object{"path": leafd.DefaultSocketPath()}, nil
	case "encode":
		return encode(l)
	case "decode_response":
		return decodeResponse(l.Hex)
	case "decode_id":
		return decodeID(l)
	case "open":
		opened := entry{}
		opened.client, opened.err = newClient(l)
		d.mu.Lock()
		d.clients[l.Client] = opened
		d.mu.Unlock()
		return object{}, opened.err
	case "pool_open":
		opened := newPool(l)
		d.mu.Lock()
		d.pools[l.Pool] = opened
		d.mu.Unlock()
		return object{}, opened.err
	case "storm":
		return runStorm(l)
	case "close", "next", "next_many", "snowflake", "snowflakes", "time", "status":
		of := d.find(d.clients, l.Client)
		if of.err != nil {
			return nil, of.err
		}
		return call(ctx, l, of.client)
	case "pool_close", "pool_next", "pool_try_next", "pool_next_many", "pool_stats":
		of := d.find(d.pools, l.Pool)
		if of.err != nil {
			return nil, of.err
		}
		return poolCall(ctx, l, of)
	default:
		return nil, errUnsupported
	}
}

func (d *driver) find(in map[string]entry, name string) entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, known := in[name]
	if !known {
		found.err = fmt.Errorf("nothing was opened as %q", name)
	}
	return found
}

func (d *driver) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, all := range []map[string]entry{d.pools, d.clients} {
		for _, one := range all {
			if one.client != nil {
				_ = one.client.Close()
			}
		}
	}
}

func ms(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func newClient(l *line) (*leafd.Client, error) {
	var with []leafd.Option
	if l.Socket != nil {
		with = append(with, leafd.WithSocket(*l.Socket))
	}
	if l.TimeoutMS != nil {
		with = append(with, leafd.WithTimeout(ms(*l.TimeoutMS)))
	}
	if l.BackoffMinMS != nil || l.BackoffMaxMS != nil {
		min, max := 5*time.Millisecond, 500*time.Millisecond
		if l.BackoffMinMS != nil {
			min = ms(*l.BackoffMinMS)
		}
		if l.BackoffMaxMS != nil {
			max = ms(*l.BackoffMaxMS)
		}
		if l.BackoffMinMS == nil && max < min {
			min = max
		}
		if l.BackoffMaxMS == nil && max < min {
			max = min
		}
		with = append(with, leafd.WithBackoff(min, max))
	}
	return leafd.New(with...)
}

func newPool(l *line) (opened entry) {
	if opened.client, opened.err = newClient(l); opened.err != nil {
		return opened
	}
	var with []leafd.PoolOption
	if l.MinChunk != nil {
		with = append(with, leafd.WithMinChunk(*l.MinChunk))
	}
	if l.MaxChunk != nil {
		with = append(with, leafd.WithMaxChunk(*l.MaxChunk))
	}
	if l.MaxAgeMS != nil {
		with = append(with, leafd.WithMaxAge(ms(*l.MaxAgeMS)))
	}
	if l.Tag == nil {
		opened.pool, opened.err = opened.client.NewSnowflakePool(with...)
	} else {
		opened.pool, opened.err = opened.client.NewPool(*l.Tag, with...)
	}
	return opened
}

func text(of *string) string {
	if of == nil {
		return ""
	}
	return *of
}

// timeouts uses both ways to limit a call: the context, and the client's timeout.
func (l *line) timeouts(ctx context.Context, client *leafd.Client) (context.Context, *leafd.Client, context.CancelFunc) {
	if l.TimeoutMS == nil {
		return ctx, client, func() {}
	}
	timeout := ms(*l.TimeoutMS)
	client = client.WithTimeout(timeout)
	if l.ID%2 == 1 {
		return ctx, client, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, client, cancel
}

func call(ctx context.Context, l *line, client *leafd.Client) (any, error) {
	ctx, client, cancel := l.timeouts(ctx, client)
	defer cancel()
	switch l.Op {
	case "close":
		return object{}, client.Close()
	case "next":
		return one(client.Next(ctx, text(l.Tag)))
	case "next_many":
		return many(client.NextMany(ctx, text(l.Tag), l.Count))
	case "snowflake":
		return one(client.Snowflake(ctx))
	case "snowflakes":
		return many(client.Snowflakes(ctx, l.Count))
	case "time":
		now, err := client.Time(ctx)
		return object{"unix_ms": strconv.FormatInt(now.UnixMilli(), 10)}, err
	default:
		return client.Status(ctx)
	}
}

func poolCall(ctx context.Context, l *line, of entry) (any, error) {
	if l.TimeoutMS != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ms(*l.TimeoutMS))
		defer cancel()
	}
	switch l.Op {
	case "pool_close":
		_ = of.pool.Close()
		return object{}, of.client.Close()
	case "pool_next":
		return one(of.pool.Next(ctx))
	case "pool_try_next":
		if id, ok := of.pool.TryNext(); ok {
			return one(id, nil)
		}
		return object{"runs": []any{}}, nil
	case "pool_next_many":
		return many(of.pool.NextMany(ctx, l.Count))
	default:
		stats := of.pool.Stats()
		decimal := func(count int64) string { return strconv.FormatInt(count, 10) }
		return object{"issued": decimal(stats.Issued), "leased": decimal(stats.Leased), "held": decimal(stats.Held),
			"lost": decimal(stats.Lost), "refills": decimal(stats.Refills), "failures": decimal(stats.Failures),
			"waits": decimal(stats.Waits), "chunk": decimal(stats.Chunk)}, nil
	}
}

func one(id int64, err error) (any, error) {
	return object{"runs": [][]any{{strconv.FormatInt(id, 10), 1}}}, err
}

func many(ids leafd.IDs, err error) (any, error) {
	runs := [][]any{}
	for _, run := range ids.Runs() {
		runs = append(runs, []any{strconv.FormatInt(run.First, 10), run.Count})
	}
	return object{"runs": runs}, err
}

func encode(l *line) (any, error) {
	id, err := strconv.ParseUint(l.RequestID, 10, 64)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Magic     string `json:"magic"`
		Version   uint16 `json:"version"`
		Tag       string `json:"tag"`
		Count     uint32 `json:"count"`
		TimeoutMS uint32 `json:"timeout_ms"`
	}
	if len(l.Fields) > 0 {
		// Fields of messages that the client does not have may be of other types.
		if err := json.Unmarshal(l.Fields, &fields); err != nil {
			return object{"unsupported": true}, nil
		}
	}
	var frame []byte
	switch l.Message {
	case "Hello":
		var magic [4]byte
		if _, err := hex.Decode(magic[:], []byte(fields.Magic)); err != nil {
			return nil, err
		}
		frame = wire.AppendHello(nil, id, magic, fields.Version)
	case "Segment":
		frame = wire.AppendSegment(nil, id, fields.Tag, fields.Count, fields.TimeoutMS)
	case "Snowflake":
		frame = wire.AppendSnowflake(nil, id, fields.Count, fields.TimeoutMS)
	case "Time":
		frame = wire.AppendTime(nil, id)
	case "Status":
		frame = wire.AppendStatus(nil, id)
	default:
		return object{"unsupported": true}, nil
	}
	return object{"hex": hex.EncodeToString(frame)}, nil
}

func decodeResponse(frame string) (any, error) {
	broken := func(format string, args ...any) (any, error) {
		return nil, &leafd.ProtocolError{Reason: fmt.Sprintf(format, args...)}
	}
	raw, err := hex.DecodeString(frame)
	if err != nil {
		return nil, err
	}
	body, rest, ok, err := wire.SplitFrame(raw)
	if err != nil || !ok || len(rest) > 0 {
		return broken("not one frame: complete %v, %d bytes left, %v", ok, len(rest), err)
	}
	id, reply, err := wire.DecodeResponse(body)
	if errors.Is(err, wire.ErrUnsupportedReply) {
		return object{"unsupported": true}, nil
	}
	if err != nil {
		return broken("%v", err)
	}
	run := func(run wire.Run) object {
		return object{"first": strconv.FormatUint(run.First, 10), "count": run.Count}
	}
	var fields any = object{}
	switch reply := reply.(type) {
	case wire.Error:
		fields = object{"code": reply.Code, "retry_after_ms": reply.RetryAfterMS,
			"detail": strconv.FormatUint(reply.Detail, 10), "message": reply.Message}
	case wire.Hello:
		fields = object{"version": reply.Version, "max_count": reply.MaxCount, "max_in_flight": reply.MaxInFlight}
	case wire.IDs:
		more := []object{}
		for _, next := range reply.More {
			more = append(more, run(next))
		}
		fields = object{"first": run(reply.First), "more": more}
	case wire.Time:
		fields = object{"unix_ms": strconv.FormatUint(reply.UnixMS, 10)}
	case *wire.Status:
		fields = reply
	}
	return object{"message": reply.Name(), "request_id": strconv.FormatUint(id, 10), "fields": fields}, nil
}

func decodeID(l *line) (any, error) {
	layout, err := leafd.ParseLayout(l.Layout)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseInt(l.Value, 10, 64)
	if err != nil {
		return nil, &leafd.InvalidError{Reason: err.Error()}
	}
	decoded, err := layout.Decode(id)
	if err != nil {
		return nil, err
	}
	decimal := func(value uint64) string { return strconv.FormatUint(value, 10) }
	return object{"unix_ms": decimal(decoded.UnixMS), "worker": decimal(decoded.Worker),
		"sequence": decimal(decoded.Sequence)}, nil
}
