package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"leafd.invalid/leafd"
)

// storm is many callers at once.
type storm struct {
	Use     string `json:"use"`
	Workers int    `json:"workers"`
	Threads int    `json:"threads"`
	Batch   int    `json:"batch"`
	IDs     string `json:"ids"`
	Out     string `json:"out"`
}

// caller gets a batch of IDs.
type caller func(ctx context.Context, count int) ([]leafd.Run, error)

type tally struct {
	issued, calls, failed atomic.Int64
	mu                    sync.Mutex
	errors                []string
}

// runStorm runs workers × threads goroutines, which share one client or pool.
func runStorm(l *line) (any, error) {
	total, err := strconv.ParseInt(l.IDs, 10, 64)
	if err != nil {
		return nil, err
	}
	opened, get, err := stormCaller(l)
	if opened.client != nil {
		defer opened.client.Close()
	}
	if err != nil {
		return nil, err
	}
	batch := atLeast1(l.Batch)
	tasks := atLeast1(l.Workers) * atLeast1(l.Threads)
	var count tally
	// left is how many IDs nobody has begun to ask for.
	var left atomic.Int64
	left.Store(total)
	failures := make(chan error, tasks)
	var running sync.WaitGroup
	for i := 0; i < tasks; i++ {
		path := filepath.Join(l.Out, fmt.Sprintf("go-%d-%d.ids", os.Getpid(), i))
		running.Add(1)
		go func() {
			defer running.Done()
			if err := count.storm(path, get, &left, batch); err != nil {
				failures <- err
			}
		}()
	}
	running.Wait()
	select {
	case err := <-failures:
		return nil, err
	default:
	}
	return object{"issued": strconv.FormatInt(count.issued.Load(), 10), "calls": count.calls.Load(),
		"failed": count.failed.Load(), "errors": append([]string{}, count.errors...)}, nil
}

func atLeast1(count int) int {
	if count < 1 {
		return 1
	}
	return count
}

func stormCaller(l *line) (entry, caller, error) {
	tag := text(l.Tag)
	if l.Use == "pool" {
		opened := newPool(l)
		if opened.err != nil {
			return opened, nil, opened.err
		}
		return opened, byCount(opened.pool.Next, opened.pool.NextMany), nil
	}
	client, err := newClient(l)
	if l.Tag == nil {
		return entry{client: client}, byCount(client.Snowflake, client.Snowflakes), err
	}
	next := func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }
	nextMany := func(ctx context.Context, count int) (leafd.IDs, error) { return client.NextMany(ctx, tag, count) }
	return entry{client: client}, byCount(next, nextMany), err
}

// byCount uses the call for one ID where it can.
func byCount(next func(context.Context) (int64, error), many func(context.Context, int) (leafd.IDs, error)) caller {
	return func(ctx context.Context, count int) ([]leafd.Run, error) {
		if count == 1 {
			id, err := next(ctx)
			return []leafd.Run{{First: id, Count: 1}}, err
		}
		ids, err := many(ctx, count)
		return ids.Runs(), err
	}
}

// storm makes calls until no IDs are left to ask for, and writes the IDs to a file.
func (t *tally) storm(path string, get caller, left *atomic.Int64, batch int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := runWriter{to: bufio.NewWriterSize(file, 64*1024)}
	ctx := context.Background()
	for {
		// What is below 0 was not there any more.
		rest := left.Add(-int64(batch)) + int64(batch)
		if rest <= 0 {
			break
		}
		want := batch
		if rest < int64(batch) {
			want = int(rest)
		}
		runs, err := get(ctx, want)
		t.calls.Add(1)
		if err != nil {
			t.fail(err)
			continue
		}
		t.issued.Add(int64(want))
		for _, run := range runs {
			out.add(uint64(run.First), uint32(run.Count))
		}
	}
	out.flush()
	return out.to.Flush()
}

func (t *tally) fail(err error) {
	t.failed.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errors) < 10 {
		t.errors = append(t.errors, err.Error())
	}
}

// runWriter writes runs, joined where IDs are in a row.
type runWriter struct {
	to    *bufio.Writer
	first uint64
	count uint32
}

func (w *runWriter) add(first uint64, count uint32) {
	if w.count > 0 && w.first+uint64(w.count) == first && w.count+count > w.count {
		w.count += count
		return
	}
	w.flush()
	w.first, w.count = first, count
}

func (w *runWriter) flush() {
	if w.count == 0 {
		return
	}
	var pair [12]byte
	binary.LittleEndian.PutUint64(pair[:], w.first)
	binary.LittleEndian.PutUint32(pair[8:], w.count)
	// The final Flush returns the error.
	_, _ = w.to.Write(pair[:])
	w.count = 0
}
