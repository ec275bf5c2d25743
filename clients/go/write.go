package leafd

import (
	"os"
	"syscall"
	"time"
)

// send sends a request. The answer arrives in the channel, which has room for one. The caller holds a slot, which the
// answer frees. It returns false if the connection takes no requests any more.
func (c *conn) send(r *request, deadline time.Time, caller chan answer) (id uint64, ok bool) {
	c.mu.Lock()
	if c.why != nil {
		c.mu.Unlock()
		return 0, false
	}
	c.resume()
	now := time.Now()
	id = c.nextID
	c.nextID++
	if len(c.inFlight) == 0 {
		c.quietSince = now
	}
	c.inFlight[id] = sentRequest{caller: caller, at: now}
	c.out = r.encode(r, c.out, id, daemonTimeoutMS(deadline.Sub(now)))
	if c.writing {
		c.mu.Unlock()
		return id, true
	}
	c.writing = true
	batch := c.takeOut()
	c.mu.Unlock()
	rest, err := c.writeNow(batch)
	if err != nil {
		c.close(err, drain)
		return id, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(rest) == 0 && len(c.out) == 0:
		c.writing = false
		c.keep(batch)
	case c.why == nil:
		// Not here: this caller must not write what others go on adding, nor wait for the socket.
		c.writers.Add(1)
		go c.write(batch, rest)
	}
	return id, true
}

// write writes the rest of a batch, and then what was added meanwhile.
func (c *conn) write(batch, rest []byte) {
	defer c.writers.Done()
	for {
		if _, err := c.sock.Write(rest); err != nil {
			c.close(err, drain)
			return
		}
		c.mu.Lock()
		c.keep(batch)
		if len(c.out) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		batch = c.takeOut()
		rest = batch
		c.mu.Unlock()
	}
}

// takeOut takes the bytes to write. The caller holds the lock.
func (c *conn) takeOut() []byte {
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	return batch
}

// keep keeps the buffer of a batch for reuse. The caller holds the lock.
func (c *conn) keep(batch []byte) {
	if cap(batch) <= maxIdleBuffer {
		c.spare = batch
	}
}

// writeNow writes what the socket takes without waiting, and returns the rest.
func (c *conn) writeNow(batch []byte) (rest []byte, err error) {
	var count int
	var failure error
	err = c.raw.Write(func(fd uintptr) bool {
		count, failure = syscall.Write(int(fd), batch)
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case failure == syscall.EAGAIN || failure == syscall.EINTR:
		return batch, nil
	case failure != nil:
		return nil, os.NewSyscallError("write", failure)
	}
	return batch[count:], nil
}
