package leafd.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import leafd.client.RefillPlan.Level;

/**
 * What a pool holds. Callers take from one range without a lock; the lock guards the move to the next range,
 * and everything else. Ranges are used in the order in which they arrive, and the next one is opened only
 * when the present one is used up, so IDs rise.
 */
final class PoolStock {
    /** The most batches kept that local handles have given back. Further ones are lost. */
    private static final int MAX_RETURNED = 4096;
    /** A batch is this part of a chunk, divided by the number of local handles. */
    private static final long BATCH_PART = 16;

    final ReentrantLock lock = new ReentrantLock();

    private final Condition changed = lock.newCondition();
    private final Condition wanted = lock.newCondition();
    /** How old an ID may be, in nanoseconds; 0: any age. */
    private final long maxAge;
    private final long maxChunk;
    private final String threadName;
    private final Function<PoolStock, Runnable> refiller;
    private volatile IdRange current = IdRange.EMPTY;
    /** Written with the lock. Read without it to refuse early. */
    private volatile boolean closed;

    // Everything below is guarded by the lock.
    private final ArrayDeque<IdRange> ready = new ArrayDeque<>();
    private final ArrayDeque<IdRange> returned = new ArrayDeque<>();
    private long readyIds;
    /** IDs of the ranges before the present one, all of which are taken. */
    private long retired;
    private long lost;
    private long leased;
    private long lent;
    private long locals;
    private long refills;
    private long failures;
    private long waits;
    private long chunk;
    private double rate;
    private boolean isStarted;
    private boolean asked;
    private LeafdException failure;
    /** When the next attempt may be made. Until then, an error that does not pass is every caller's. */
    private long failureUntil;

    PoolStock(
            long maxAge,
            long maxChunk,
            long minChunk,
            String threadName,
            Function<PoolStock, Runnable> refiller) {
        this.maxAge = maxAge;
        this.maxChunk = maxChunk;
        this.threadName = threadName;
        this.refiller = refiller;
        chunk = minChunk;
    }

    // For callers.

    /** Takes the next ID; {@link IdRange#NONE} if none is there, and then a refill is under way. */
    long take() {
        IdRange range = current;
        long id = range.take();
        // The age is looked at after the ID was taken: it holds for the moment of taking.
        if (id != IdRange.NONE && (maxAge == 0 || !range.birth.isOlderThan(maxAge))) {
            return id;
        }
        return takeSlowly(id);
    }

    /** The rest of {@link #take}: {@code tooOld} is an ID that is, or NONE. */
    private long takeSlowly(long tooOld) {
        lock.lock();
        try {
            lost += tooOld == IdRange.NONE ? 0 : 1;
            while (open()) {
                long id = current.take();
                if (id != IdRange.NONE && !isOutdated(current)) {
                    return id;
                }
                lost += id == IdRange.NONE ? 0 : 1;
            }
            return IdRange.NONE;
        } finally {
            lock.unlock();
        }
    }

    /** Takes up to {@code most} IDs in a row; null if none is there. */
    IdRange take(long most) {
        lock.lock();
        try {
            while (open()) {
                IdRange taken = current.take(most);
                if (taken != null && !isOutdated(taken)) {
                    askIfLow();
                    return taken;
                }
                lost += taken == null ? 0 : taken.count;
            }
            return null;
        } finally {
            lock.unlock();
        }
    }

    /** Makes the present range one with IDs that are not too old. Returns whether there is one. */
    private boolean open() {
        requireOpen();
        while (current.left() == 0 || isOutdated(current)) {
            lost += current.exhaust();
            IdRange next = ready.poll();
            if (next == null) {
                ask();
                return false;
            }
            retired += current.count;
            readyIds -= next.count;
            current = next;
            askIfLow();
        }
        return true;
    }

    boolean isOutdated(IdRange range) {
        return maxAge != 0 && range.birth.isOlderThan(maxAge);
    }

    /** Repeats {@code take} until it succeeds, waiting for refills in between. {@code call} is what they make. */
    void await(Duration timeout, String call, BooleanSupplier take) throws InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        lock.lockInterruptibly();
        try {
            waits++;
            while (!take.getAsBoolean()) {
                ask();
                long now = System.nanoTime();
                boolean isOver = now - deadline >= 0;
                if (failure != null && (isOver || !failure.isTemporary() && now - failureUntil < 0)) {
                    throw failure.here();
                }
                if (isOver) {
                    throw new LeafdException.DeadlineExceeded(call, timeout);
                }
                changed.awaitNanos(deadline - now);
            }
        } finally {
            lock.unlock();
        }
    }

    private void askIfLow() {
        if (current.left() + readyIds <= chunk / 2) {
            ask();
        }
    }

    /** Makes the refill thread look, and starts it the first time. */
    private void ask() {
        asked = true;
        if (isStarted) {
            wanted.signal();
            return;
        }
        Thread thread = new Thread(null, refiller.apply(this), threadName, 0, false);
        thread.setDaemon(true);
        // If this throws, the next caller tries again.
        thread.start();
        isStarted = true;
    }

    private void requireOpen() {
        if (closed) {
            throw new LeafdException.Closed("pool");
        }
    }

    // For local handles.

    void addLocal() {
        lock.lock();
        try {
            requireOpen();
            locals++;
        } finally {
            lock.unlock();
        }
    }

    /** A batch for a local handle; null if nothing is there. It may be older than what the pool holds. */
    IdRange takeBatch() {
        lock.lock();
        try {
            requireOpen();
            IdRange batch;
            while ((batch = returned.poll()) != null) {
                if (!isOutdated(batch)) {
                    return batch;
                }
                lent -= batch.count;
                lost += batch.count;
            }
            // All handles together hold at most half of the largest chunk.
            long room = maxChunk / 2 - lent;
            long most = Math.max(1, Math.min(room, chunk / (BATCH_PART * Math.max(1, locals))));
            batch = take(most);
            lent += batch == null ? 0 : batch.count;
            return batch;
        } finally {
            lock.unlock();
        }
    }

    /** A local handle has used all but {@code rest} of a batch of {@code count} IDs. */
    void endBatch(long count, IdRange rest) {
        lock.lock();
        try {
            lent -= count - rest.count;
            if (rest.count > 0 && !closed && !isOutdated(rest) && returned.size() < MAX_RETURNED) {
                returned.add(rest);
            } else {
                lent -= rest.count;
                lost += rest.count;
            }
        } finally {
            lock.unlock();
        }
    }

    void removeLocal() {
        lock.lock();
        try {
            locals--;
        } finally {
            lock.unlock();
        }
    }

    boolean ages() {
        return maxAge != 0;
    }

    // For the refill thread.

    /** Waits, with the lock, until somebody asks or the time is over. */
    void awaitWanted(long nanos) {
        try {
            if (!asked && !closed) {
                wanted.awaitNanos(Math.min(nanos, TimeUnit.HOURS.toNanos(1)));
            }
        } catch (InterruptedException ignored) {
            // Nobody who interrupts this thread can mean to stop the pool: that is what `close` is for.
        }
    }

    boolean takeAsked() {
        boolean before = asked;
        asked = false;
        return before;
    }

    Level level() {
        long left = current.left();
        return new Level(left + readyIds, lent, retired + current.count - left);
    }

    void planned(long chunk, double rate) {
        this.chunk = chunk;
        this.rate = rate;
    }

    void publish(Ids ids, IdRange.Birth birth) {
        leased += ids.count();
        ids.runs().forEach(run -> {
            // A caller that opens a range looks whether half of the chunk is used. An answer of one run may
            // be the whole chunk, so it becomes two.
            long half = ids.runs().size() == 1 ? run.count() / 2 : 0;
            append(new IdRange(run.first(), half, birth));
            append(new IdRange(run.first() + half, run.count() - half, birth));
        });
        failure = null;
        changed.signalAll();
    }

    private void append(IdRange range) {
        if (range.count == 0) {
            return;
        }
        if (closed) {
            lost += range.count;
            return;
        }
        ready.add(range);
        readyIds += range.count;
    }

    void refilled() {
        refills++;
    }

    void failed(LeafdException error, long until) {
        failures++;
        failure = error;
        failureUntil = until;
        changed.signalAll();
    }

    boolean isClosed() {
        return closed;
    }

    // For whoever owns the pool.

    PoolStats stats() {
        lock.lock();
        try {
            long held = current.left() + readyIds;
            long issued = leased - held - lent - lost;
            return new PoolStats(leased, issued, held, lent, lost, refills, failures, waits, chunk);
        } finally {
            lock.unlock();
        }
    }

    /** How long the pool lasts at the rate of the last chunk; NaN while no rate is known. */
    double secondsLeft() {
        lock.lock();
        try {
            return rate > 0 ? (current.left() + readyIds) / rate : Double.NaN;
        } finally {
            lock.unlock();
        }
    }

    void close() {
        lock.lock();
        try {
            closed = true;
            lost += current.exhaust() + readyIds;
            ready.clear();
            readyIds = 0;
            returned.forEach(batch -> {
                lent -= batch.count;
                lost += batch.count;
            });
            returned.clear();
            changed.signalAll();
            wanted.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
