package leafd.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * IDs in a row that a pool has leased. Any number of threads take from it without a lock: each draws a
 * ticket, and no ticket is drawn twice. Once it is used up it stays so.
 */
final class IdRange {
    /** What {@link #take()} returns if nothing is left. No ID is negative. */
    static final long NONE = -1;
    static final IdRange EMPTY = new IdRange(0, 0, Birth.now());

    private static final VarHandle TICKETS;

    static {
        try {
            TICKETS = MethodHandles.lookup().findVarHandle(IdRange.class, "tickets", long.class);
        } catch (ReflectiveOperationException impossible) {
            throw new ExceptionInInitializerError(impossible);
        }
    }

    final long count;
    final Birth birth;
    private final long first;
    /** How many tickets were drawn. More than {@link #count} once it is used up. */
    @SuppressWarnings("unused")
    private volatile long tickets;

    IdRange(long first, long count, Birth birth) {
        this.first = first;
        this.count = count;
        this.birth = birth;
    }

    /** Takes the next ID. */
    long take() {
        long ticket = (long) TICKETS.getAndAdd(this, 1L);
        return ticket < count ? first + ticket : NONE;
    }

    /** Takes up to {@code most} IDs in a row; null if nothing is left. */
    IdRange take(long most) {
        long ticket = (long) TICKETS.getAndAdd(this, most);
        return ticket < count ? new IdRange(first + ticket, Math.min(most, count - ticket), birth) : null;
    }

    /** Takes everything that is left, and returns how much that is. */
    long exhaust() {
        return Math.max(0, count - (long) TICKETS.getAndAdd(this, count));
    }

    /** IDs that are left. */
    long left() {
        return Math.max(0, count - tickets);
    }

    long first() {
        return first;
    }

    /**
     * When a range was requested: no ID of it is older. Java has no clock that is monotonic and goes on while
     * the machine is suspended, so there are two: one goes on, the other one is monotonic, and the larger age
     * counts.
     *
     * @param nanos {@link System#nanoTime}
     * @param millis {@link System#currentTimeMillis}
     */
    record Birth(long nanos, long millis) {
        static Birth now() {
            return new Birth(System.nanoTime(), System.currentTimeMillis());
        }

        boolean isOlderThan(long maxNanos) {
            return System.nanoTime() - nanos > maxNanos
                    || System.currentTimeMillis() - millis > maxNanos / 1_000_000;
        }
    }
}
