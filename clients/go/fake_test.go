package leafd

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leafd.invalid/leafd/wire"
)

// fake is a daemon that follows a script for each connection. The script gets the number of the connection, from 1.
type fake struct {
	t        testing.TB
	path     string
	listener *net.UnixListener
	script   func(p *peer)
	accepted atomic.Int64
	// first is the next ID to issue.
	first   atomic.Uint64
	running sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]bool
}

// peer is the daemon's side of a connection.
type peer struct {
	*fake
	net.Conn
	number int
}

// asked is a request as it arrived.
type asked struct {
	id        uint64
	call      uint32
	tag       string
	count     uint32
	timeoutMS uint32
}

func startFake(t testing.TB, script func(p *peer)) *fake {
	t.Helper()
	// Not t.TempDir: with the name of the test, its path is too long for a socket.
	dir, err := os.MkdirTemp("", "leafd-go")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{t: t, path: filepath.Join(dir, "s"), script: script, open: map[net.Conn]bool{}}
	f.first.Store(1)
	f.listen()
	t.Cleanup(f.stop)
	return f
}

func (f *fake) listen() {
	var err error
	f.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: f.path, Net: "unix"})
	if err != nil {
		f.t.Fatal(err)
	}
	listener := f.listener
	f.running.Add(1)
	go func() {
		defer f.running.Done()
		for {
			sock, err := listener.Accept()
			if err != nil {
				return
			}
			p := &peer{fake: f, Conn: sock, number: int(f.accepted.Add(1))}
			f.mu.Lock()
			f.open[sock] = true
			f.mu.Unlock()
			f.running.Add(1)
			go func() {
				defer f.running.Done()
				defer sock.Close()
				f.script(p)
			}()
		}
	}()
}

// stop kills the daemon.
func (f *fake) stop() {
	_ = f.listener.Close()
	f.mu.Lock()
	for sock := range f.open {
		_ = sock.Close()
	}
	f.open = map[net.Conn]bool{}
	f.mu.Unlock()
	f.running.Wait()
}

func (f *fake) client(with ...Option) *Client {
	f.t.Helper()
	client, err := New(append([]Option{WithSocket(f.path)}, with...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = client.Close() })
	return client
}

// read reads a request; ok is false at the end of the stream.
func (p *peer) read() (r asked, ok bool) {
	var header [4]byte
	if _, err := io.ReadFull(p, header[:]); err != nil {
		return r, false
	}
	body := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(p, body); err != nil {
		return r, false
	}
	r.id, r.call = binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint32(body[8:])
	fields := body[12:]
	if r.call == 1 {
		length := binary.LittleEndian.Uint64(fields)
		r.tag = string(fields[8 : 8+length])
		fields = fields[8+length:]
	}
	if r.call == 1 || r.call == 2 {
		r.count, r.timeoutMS = binary.LittleEndian.Uint32(fields), binary.LittleEndian.Uint32(fields[4:])
	}
	return r, true
}

func (p *peer) send(frames ...[]byte) {
	var all []byte
	for _, one := range frames {
		all = append(all, one...)
	}
	_, _ = p.Write(all)
}

// hello answers Hello with these limits.
func (p *peer) hello(maxCount, maxInFlight uint32) bool {
	r, ok := p.read()
	if ok {
		p.send(helloFrame(r.id, wire.Version, maxCount, maxInFlight))
	}
	return ok
}

// serve answers every request as a daemon does, until the end of the stream.
func (p *peer) serve() {
	for r, ok := p.read(); ok; r, ok = p.read() {
		p.send(p.answer(r))
	}
}

// answer issues the next IDs.
func (p *peer) answer(r asked) []byte {
	switch r.call {
	case 1, 2:
		end := p.first.Add(uint64(r.count))
		return idsFrame(r.id, wire.Run{First: end - uint64(r.count), Count: r.count})
	case 3:
		return frame(r.id, 3, binary.LittleEndian.AppendUint64(nil, 1700000000000))
	}
	return errorFrame(r.id, CodeUnknownCall, 0, 0)
}

// normal is the script of a daemon that works.
func normal(p *peer) {
	if p.hello(100_000, 1024) {
		p.serve()
	}
}

// wait waits until the client has closed the connection.
func (p *peer) wait() { _, _ = io.Copy(io.Discard, p) }

func frame(id uint64, reply uint32, fields []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(12+len(fields)))
	out = binary.LittleEndian.AppendUint64(out, id)
	out = binary.LittleEndian.AppendUint32(out, reply)
	return append(out, fields...)
}

func helloFrame(id uint64, version uint16, maxCount, maxInFlight uint32) []byte {
	fields := binary.LittleEndian.AppendUint16(nil, version)
	fields = binary.LittleEndian.AppendUint32(fields, maxCount)
	return frame(id, 1, binary.LittleEndian.AppendUint32(fields, maxInFlight))
}

func idsFrame(id uint64, first wire.Run, more ...wire.Run) []byte {
	run := func(out []byte, run wire.Run) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(out, run.First), run.Count)
	}
	fields := binary.LittleEndian.AppendUint64(run(nil, first), uint64(len(more)))
	for _, next := range more {
		fields = run(fields, next)
	}
	return frame(id, 2, fields)
}

func errorFrame(id uint64, code Code, retryAfterMS uint32, detail uint64) []byte {
	fields := binary.LittleEndian.AppendUint16(nil, uint16(code))
	fields = binary.LittleEndian.AppendUint32(fields, retryAfterMS)
	fields = binary.LittleEndian.AppendUint64(fields, detail)
	fields = binary.LittleEndian.AppendUint64(fields, 4)
	return frame(id, 0, append(fields, "fake"...))
}

func goodbyeFrame() []byte { return frame(0, 6, nil) }

// noLeak fails the test if goroutines of this package are left at its end.
func noLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for i := 0; i < 200; i++ {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		stacks := make([]byte, 1<<16)
		t.Errorf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
	})
}

var background = context.Background()

// TestMain runs a daemon for the examples, which find it as an application does.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "leafd-go")
	if err != nil {
		panic(err)
	}
	f := &fake{path: filepath.Join(dir, "s"), script: normal, open: map[net.Conn]bool{}}
	f.first.Store(1)
	f.listen()
	os.Setenv("LEAFD_SOCKET", f.path)
	code := m.Run()
	f.stop()
	os.RemoveAll(dir)
	os.Exit(code)
}
