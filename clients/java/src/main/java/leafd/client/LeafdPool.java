package leafd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import leafd.client.wire.Run;

/**
 * IDs at the speed of memory. The daemon leases ranges of IDs to the pool ahead of need, so a call costs an
 * addition instead of a round trip. Thread-safe: make one per tag for the whole application.
 *
 * <ul>
 *   <li>No ID comes twice, in any thread or process of the host.
 *   <li>An ID that is taken after another one was returned, by any thread, is higher. ({@link Local} handles
 *       promise uniqueness only. After the daemon has switched to another store, IDs may be lower.) Other
 *       processes have ranges of their own, so between processes there is no order.
 *   <li>A snowflake ID is at most {@link Builder#maxAge} old when it is taken. Older ones are dropped.
 *   <li>An application that ends loses what its pool holds: at most two chunks. A chunk is what was used in
 *       about a second, between {@link Builder#minChunk} and {@link Builder#maxChunk}.
 * </ul>
 *
 * <p>The pool leases in the background, once half of a chunk is used. While the daemon does not answer, the
 * pool gives what it holds. After that, calls wait until their timeout and get the error of the last attempt;
 * an error that does not pass by itself, such as {@code FORBIDDEN}, comes at once. An outage of more than a
 * second is logged once, by the {@link System.Logger} {@code leafd.client}.
 *
 * <p>Do not restore a snapshot of a process with an open pool (CRaC, CRIU, SnapStart) more than once: each
 * copy would issue the same range. Close pools before the snapshot and make new ones after it.
 */
public final class LeafdPool implements AutoCloseable {
    private static final AtomicLong POOLS = new AtomicLong();

    private final PoolStock stock;
    private final ConnectionLoop loop;
    private final Duration timeout;
    /** What a refill calls. */
    private final String call;

    private LeafdPool(Builder builder) {
        String name = "leafd-pool-" + POOLS.incrementAndGet();
        LeafdOptions options = builder.options;
        timeout = options.timeout();
        call = builder.tag == null ? "Snowflake" : "Segment";
        loop = ConnectionLoop.failingFast(options, name + "-io");
        RefillPlan plan = new RefillPlan(builder.minChunk, builder.maxChunk, builder.lasts().toNanos(),
                options.backoffMin().toNanos(), options.backoffMax().toNanos());
        long maxAge = builder.maxAge == null ? 0 : builder.maxAge.toNanos();
        stock = new PoolStock(maxAge, builder.maxChunk, builder.minChunk, name,
                stock -> new PoolRefiller(stock, plan, loop, builder.tag, timeout));
    }

    /**
     * Begins a pool of IDs of a tag.
     *
     * @param tag the tag, 1 to 128 characters without control characters
     * @return a builder
     * @throws IllegalArgumentException if the tag is invalid
     */
    public static Builder tag(String tag) {
        CallSpec.checkTag(tag);
        return new Builder(tag);
    }

    /**
     * Begins a pool of snowflake IDs.
     *
     * @return a builder
     */
    public static Builder snowflakes() {
        return new Builder(null);
    }

    /**
     * Takes the next ID, and waits for one until the timeout of the options if none is there.
     *
     * @return the ID
     * @throws LeafdException if none came in time: the error of the last attempt to lease
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public long next() throws InterruptedException {
        long id = stock.take();
        return id != IdRange.NONE ? id : await(timeout);
    }

    /**
     * As {@link #next()}, with another timeout.
     *
     * @param timeout the longest wait; more than 24 hours is lowered to that
     * @return the ID
     * @throws LeafdException if none came in time: the error of the last attempt to lease
     * @throws IllegalArgumentException if the timeout is negative
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public long next(Duration timeout) throws InterruptedException {
        Duration longest = LeafdOptions.cut(timeout);
        long id = stock.take();
        return id != IdRange.NONE ? id : await(longest);
    }

    private long await(Duration longest) throws InterruptedException {
        long[] taken = new long[1];
        stock.await(longest, call, () -> (taken[0] = stock.take()) != IdRange.NONE);
        return taken[0];
    }

    /**
     * Takes the next ID if one is there. Never waits for the daemon.
     *
     * @return the ID; empty while a refill is under way
     * @throws LeafdException.Closed if the pool is closed
     */
    public OptionalLong tryNext() {
        long id = stock.take();
        return id != IdRange.NONE ? OptionalLong.of(id) : OptionalLong.empty();
    }

    /**
     * Takes several IDs, and waits for them until the timeout of the options. Those taken before an error are
     * lost.
     *
     * @param count how many, 1 to 2^32 - 1
     * @return the IDs
     * @throws LeafdException if they did not come in time
     * @throws IllegalArgumentException if the count is invalid
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public Ids nextMany(long count) throws InterruptedException {
        return nextMany(count, timeout);
    }

    /**
     * As {@link #nextMany(long)}, with another timeout.
     *
     * @param count how many, 1 to 2^32 - 1
     * @param timeout the longest wait; more than 24 hours is lowered to that
     * @return the IDs
     * @throws LeafdException if they did not come in time
     * @throws IllegalArgumentException if an argument is invalid
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public Ids nextMany(long count, Duration timeout) throws InterruptedException {
        CallSpec.checkCount(count);
        Duration longest = LeafdOptions.cut(timeout);
        Gathering gathering = new Gathering(count);
        if (!gathering.isComplete()) {
            stock.await(longest, call, gathering::isComplete);
        }
        return Ids.ofChecked(gathering.runs, count);
    }

    /** Takes runs until there are enough IDs. */
    private final class Gathering {
        final List<Run> runs = new ArrayList<>();
        private long missing;

        Gathering(long count) {
            missing = count;
        }

        boolean isComplete() {
            IdRange taken;
            while (missing > 0 && (taken = stock.take(missing)) != null) {
                add(taken.first(), taken.count);
                missing -= taken.count;
            }
            return missing == 0;
        }

        /** Joins IDs in a row. */
        private void add(long first, long count) {
            int last = runs.size() - 1;
            if (last >= 0 && runs.get(last).last() + 1 == first) {
                runs.set(last, new Run(runs.get(last).first(), runs.get(last).count() + count));
            } else {
                runs.add(new Run(first, count));
            }
        }
    }

    /**
     * Makes a handle for the present thread, with a range of its own: the cheapest way to many IDs.
     *
     * @return the handle, to be closed by this thread
     * @throws LeafdException.Closed if the pool is closed
     */
    public Local local() {
        return new Local();
    }

    /**
     * Returns how long the IDs that the pool holds last at the rate of the last chunk.
     *
     * @return seconds; empty while no rate is known
     */
    public OptionalDouble secondsLeft() {
        double seconds = stock.secondsLeft();
        return Double.isNaN(seconds) ? OptionalDouble.empty() : OptionalDouble.of(seconds);
    }

    /**
     * Returns the counters of the pool.
     *
     * @return a snapshot
     */
    public PoolStats stats() {
        return stock.stats();
    }

    /** Ends the threads of the pool. What it holds is lost; calls that wait, and later ones, fail. */
    @Override
    public void close() {
        stock.close();
        loop.close();
    }

    /**
     * A handle of a pool for one thread. Its IDs are unique but need not rise: it may get a range that another
     * handle has given back. Closing it gives back what it has not used.
     */
    public final class Local implements AutoCloseable {
        private final Thread owner = Thread.currentThread();
        private long next;
        /**
         * Where the range ends, or where it begins if its IDs age, so that only those calls look at the time.
         * Compare differences only: the end of the highest range is 2^63, which overflows.
         */
        private long fastEnd;
        /** The present range; all of it was taken from the pool. */
        private IdRange range = IdRange.EMPTY;
        private boolean closed;

        private Local() {
            stock.addLocal();
        }

        /**
         * Takes an ID, and waits for one until the timeout of the options if none is there.
         *
         * @return the ID
         * @throws LeafdException if none came in time, or the handle is closed
         * @throws IllegalStateException in another thread than the one that made the handle
         * @throws InterruptedException if the thread is interrupted while it waits
         */
        public long next() throws InterruptedException {
            if (Thread.currentThread() == owner && next - fastEnd < 0) {
                return next++;
            }
            long id = takeSlowly();
            if (id == IdRange.NONE) {
                stock.await(timeout, call, this::advance);
                id = next++;
            }
            return id;
        }

        /**
         * Takes an ID if one is there. Never waits for the daemon.
         *
         * @return the ID; empty while a refill is under way
         * @throws LeafdException.Closed if the handle or the pool is closed
         * @throws IllegalStateException in another thread than the one that made the handle
         */
        public OptionalLong tryNext() {
            long id = takeSlowly();
            return id != IdRange.NONE ? OptionalLong.of(id) : OptionalLong.empty();
        }

        private long takeSlowly() {
            requireOwner();
            if (closed) {
                throw new LeafdException.Closed("handle");
            }
            boolean there = rest() > 0 && !stock.isOutdated(range) || advance();
            return there ? next++ : IdRange.NONE;
        }

        /** Takes a batch from the pool. */
        private boolean advance() {
            end();
            IdRange batch = stock.takeBatch();
            if (batch == null) {
                return false;
            }
            range = batch;
            next = batch.first();
            fastEnd = batch.first() + (stock.ages() ? 0 : batch.count);
            return true;
        }

        /** Ends the present range. The rest goes back, or is lost if it is too old. */
        private void end() {
            if (range.count > 0) {
                stock.endBatch(range.count, new IdRange(next, rest(), range.birth));
            }
            range = IdRange.EMPTY;
            next = 0;
            fastEnd = 0;
        }

        private long rest() {
            return range.first() + range.count - next;
        }

        private void requireOwner() {
            if (Thread.currentThread() != owner) {
                throw new IllegalStateException("this handle belongs to the thread " + owner.getName());
            }
        }

        /**
         * Gives back what the handle has not used.
         *
         * @throws IllegalStateException in another thread than the one that made the handle
         */
        @Override
        public void close() {
            requireOwner();
            if (!closed) {
                closed = true;
                end();
                stock.removeLocal();
            }
        }
    }

    /** Builds a pool. */
    public static final class Builder {
        private static final long SMALLEST_CHUNK = 100;
        private static final long LARGEST_CHUNK = 1_000_000;
        /** How long a chunk of IDs that do not age should last. */
        private static final Duration LASTS = Duration.ofSeconds(1);
        /** Below this, a round trip could outdate a whole chunk. */
        private static final Duration SHORTEST_AGE = Duration.ofMillis(10);
        /**
         * A chunk of IDs that age lasts this part of their age: it is prefetched at half, so its last ID is
         * taken when it is three quarters of this part old, and the rest covers a slower rate.
         */
        private static final int AGE_PART = 2;

        private final String tag;
        private LeafdOptions options;
        private long minChunk = SMALLEST_CHUNK;
        private long maxChunk = LARGEST_CHUNK;
        private Duration maxAge;

        private Builder(String tag) {
            this.tag = tag;
            maxAge = tag == null ? Duration.ofSeconds(1) : null;
        }

        /**
         * Sets how to reach the daemon, how long {@link LeafdPool#next()} waits, and the pauses between
         * attempts to lease.
         *
         * @param options the options; {@link LeafdOptions#defaults()} by default
         * @return this builder
         */
        public Builder options(LeafdOptions options) {
            this.options = options;
            return this;
        }

        /**
         * Sets the size of the first and smallest chunk.
         *
         * @param ids from 1 to 1,000,000; other values are moved into that range. The default is 100
         * @return this builder
         */
        public Builder minChunk(long ids) {
            minChunk = Math.max(1, Math.min(ids, LARGEST_CHUNK));
            maxChunk = Math.max(maxChunk, minChunk);
            return this;
        }

        /**
         * Sets the size of the largest chunk. The pool never holds more than two of them.
         *
         * @param ids from 1 to 1,000,000; other values are moved into that range. The default is 1,000,000
         * @return this builder
         */
        public Builder maxChunk(long ids) {
            maxChunk = Math.max(1, Math.min(ids, LARGEST_CHUNK));
            minChunk = Math.min(minChunk, maxChunk);
            return this;
        }

        /**
         * Sets how old an ID may be when it is taken, measured from before it was requested.
         *
         * @param age from 10 ms to 24 hours; other values are moved into that range. The default is 1 s for
         *     snowflake IDs, whose time would be wrong by that much, and any age for IDs of a tag
         * @return this builder
         * @throws IllegalArgumentException if it is negative
         */
        public Builder maxAge(Duration age) {
            Duration cut = LeafdOptions.cut(age);
            maxAge = cut.compareTo(SHORTEST_AGE) < 0 ? SHORTEST_AGE : cut;
            return this;
        }

        private Duration lasts() {
            Duration part = maxAge == null ? LASTS : maxAge.dividedBy(AGE_PART);
            return part.compareTo(LASTS) < 0 ? part : LASTS;
        }

        /**
         * Makes the pool. It neither connects nor starts a thread: both happen at the first use.
         *
         * @return the pool
         */
        public LeafdPool build() {
            if (options == null) {
                options = LeafdOptions.defaults();
            }
            return new LeafdPool(this);
        }
    }
}
