package leafd.client;

import java.util.concurrent.TimeUnit;

/**
 * Whether calls come from one caller at a time, each soon after the last. Only then does a caller gain from
 * serving the connection itself. No clock: times are arguments, in nanoseconds.
 */
final class LoneCaller {
    /** How soon the next call has to come. */
    static final long SOON = TimeUnit.MILLISECONDS.toNanos(10);
    /** Calls in a row that make a lone caller. Two callers at once hardly ever miss each other this often. */
    static final int CALLS = 8;

    private int inARow;
    private long last;

    /** A call was made. {@code isAlone}: its caller waits for it, and no other call was without a result. */
    void called(boolean isAlone, long now) {
        inARow = isAlone && now - last <= SOON ? inARow + 1 : 0;
        last = now;
    }

    boolean isLikely() {
        return inARow >= CALLS;
    }
}
