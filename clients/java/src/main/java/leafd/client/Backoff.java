package leafd.client;

/**
 * When to connect again. The first attempt after a working connection is immediate. After attempts without
 * an answer the pauses double, with jitter, so that the clients of a restarted daemon do not all arrive at
 * once. No clock: times are arguments, in nanoseconds.
 */
final class Backoff {
    private final long min;
    private final long max;
    /** Attempts since the last answer. Each doubles the pause. */
    private int fruitless;
    /**
     * Whether the last connection answered a call. A completed handshake is not enough: a daemon that says
     * hello and then fails would be called in a tight loop.
     */
    private boolean answered;
    private long notBefore;
    private boolean pausing;

    Backoff(long minNanos, long maxNanos) {
        min = minNanos;
        max = maxNanos;
    }

    /** The present connection has answered a call. */
    void answered() {
        answered = true;
    }

    /**
     * An attempt failed or the connection ended. {@code jitter} is a random number from 0 to 1, and
     * {@code atLeast} is what the daemon asked for, which jitter does not shorten.
     */
    void lost(long now, double jitter, long atLeast) {
        long pause = 0;
        if (answered) {
            fruitless = 0;
        } else {
            pause = pause(min, max, fruitless, jitter);
            fruitless++;
        }
        answered = false;
        notBefore = now + Math.max(pause, atLeast);
        pausing = true;
    }

    /** How long to wait from {@code now} before the next attempt. */
    long pause(long now) {
        return pausing ? Math.max(0, notBefore - now) : 0;
    }

    /** The pause after {@code failures} earlier failures. */
    static long pause(long min, long max, int failures, double jitter) {
        long doubled = min;
        for (int i = 0; i < failures && doubled < max; i++) {
            doubled = Math.min(max, doubled * 2);
        }
        return (long) (Math.min(doubled, max) * (1 - jitter / 2));
    }
}
