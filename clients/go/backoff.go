package leafd

import (
	"math/rand"
	"os"
	"sync"
	"time"
)

// backoff says when to connect again. The first attempt after a working connection is immediate. After attempts
// without an answer the pauses double.
type backoff struct {
	min, max  time.Duration
	fruitless int
	// answered: the last connection answered a call. A handshake is not enough: otherwise a daemon that says hello
	// and then fails would be called in a tight loop.
	answered  bool
	notBefore time.Time
}

// lost notes that an attempt failed or the connection ended. retryAfter is how long the daemon asked to wait.
func (b *backoff) lost(now time.Time, jitter float64, retryAfter time.Duration) {
	if b.answered {
		b.answered = false
		b.fruitless = 0
		b.notBefore = now.Add(retryAfter)
		return
	}
	pause := shorten(doubled(b.min, b.max, b.fruitless), jitter)
	b.fruitless++
	if pause < retryAfter {
		pause = retryAfter
	}
	b.notBefore = now.Add(pause)
}

// doubled is min, doubled as many times as given, but at most max.
func doubled(min, max time.Duration, times int) time.Duration {
	pause := min
	for ; times > 0 && pause < max; times-- {
		pause *= 2
	}
	if pause > max {
		return max
	}
	return pause
}

// shorten takes up to half off a pause, so that the clients of a restarted daemon do not all arrive at once. jitter
// is in 0..1.
func shorten(pause time.Duration, jitter float64) time.Duration {
	return pause - time.Duration(float64(pause)*jitter/2)
}

// random is the source of jitter. The global source of math/rand starts with the same seed in every process before
// Go 1.20.
var random = struct {
	sync.Mutex
	*rand.Rand
}{Rand: rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))}

func jitter() float64 {
	random.Lock()
	defer random.Unlock()
	return random.Float64()
}

var started = time.Now()

func sinceStart() time.Duration { return time.Since(started) }
