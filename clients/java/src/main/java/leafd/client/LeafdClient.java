package leafd.client;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import leafd.client.wire.DaemonStatus;

/**
 * A client of leafd. Thread-safe: make one for the whole application. All its calls share one connection.
 *
 * <p>The client connects at the first call and reconnects when the connection is lost. It then repeats calls
 * that got no answer, which may skip IDs but never repeats one. A call fails only if its timeout passes, the
 * daemon refuses it, or the peer breaks the protocol. Calls above the daemon's limit on requests in flight
 * are queued here.
 *
 * <p>Every call exists twice. The blocking one throws {@link LeafdException}, and {@link InterruptedException}
 * if its thread is interrupted while it waits. The asynchronous one completes its future with the value or
 * with the same exception. Cancelling the future, or completing it in any other way, abandons the call: IDs
 * that the daemon issues for it become a gap.
 */
public final class LeafdClient implements AutoCloseable {
    private static final AtomicLong CLIENTS = new AtomicLong();

    private final ConnectionLoop loop;
    private final Duration timeout;
    private final Executor executor;

    private LeafdClient(ConnectionLoop loop, Duration timeout, Executor executor) {
        this.loop = loop;
        this.timeout = timeout;
        this.executor = executor;
    }

    /**
     * Makes a client with {@link LeafdOptions#defaults()}. It neither connects nor starts a thread yet.
     *
     * @return the client
     */
    public static LeafdClient create() {
        return create(LeafdOptions.defaults());
    }

    /**
     * Makes a client. It neither connects nor starts a thread yet.
     *
     * @param options how to reach the daemon and how long to try
     * @return the client
     */
    public static LeafdClient create(LeafdOptions options) {
        ConnectionLoop loop = ConnectionLoop.patient(options, "leafd-client-" + CLIENTS.incrementAndGet());
        return new LeafdClient(loop, options.timeout(), options.executor());
    }

    /**
     * Returns this client with another timeout. Both share the connection, and closing either closes both.
     *
     * @param timeout the timeout of each call; more than 24 hours is lowered to that
     * @return a view of this client
     * @throws IllegalArgumentException if it is negative
     */
    public LeafdClient withTimeout(Duration timeout) {
        return new LeafdClient(loop, LeafdOptions.cut(timeout), executor);
    }

    /**
     * Gets one ID of a tag.
     *
     * @param tag the tag, 1 to 128 characters without control characters
     * @return the ID, 0 to 2^63 - 1
     * @throws LeafdException if there is none in time; expect {@code UNKNOWN_TAG}, {@code FORBIDDEN} and
     *     {@code STORE_UNAVAILABLE}
     * @throws IllegalArgumentException if the tag is invalid
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public long next(String tag) throws InterruptedException {
        return call(CallSpec.segment(tag, 1)).first();
    }

    /**
     * Gets IDs of a tag. A thousand cost about as much as one.
     *
     * @param tag the tag, 1 to 128 characters without control characters
     * @param count how many, from 1 to the daemon's limit (100,000 by default)
     * @return the IDs
     * @throws LeafdException as {@link #next}, and {@code BAD_COUNT} above the limit
     * @throws IllegalArgumentException if an argument is invalid
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public Ids nextMany(String tag, long count) throws InterruptedException {
        return call(CallSpec.segment(tag, count));
    }

    /**
     * Gets one snowflake ID. {@link Layout#decode} splits it into its parts.
     *
     * @return the ID, 0 to 2^63 - 1
     * @throws LeafdException if there is none in time; expect {@code CLOCK_BACKWARDS} and
     *     {@code WORKER_UNAVAILABLE}
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public long snowflake() throws InterruptedException {
        return call(CallSpec.snowflake(1)).first();
    }

    /**
     * Gets snowflake IDs.
     *
     * @param count how many, from 1 to the daemon's limit (100,000 by default)
     * @return the IDs
     * @throws LeafdException as {@link #snowflake}, and {@code BAD_COUNT} above the limit
     * @throws IllegalArgumentException if the count is invalid
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public Ids snowflakes(long count) throws InterruptedException {
        return call(CallSpec.snowflake(count));
    }

    /**
     * Reads the clock of the daemon's host, to the millisecond.
     *
     * @return the time
     * @throws LeafdException if there is no answer in time
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public Instant time() throws InterruptedException {
        return call(CallSpec.time());
    }

    /**
     * Gets the state of the daemon.
     *
     * @return the state
     * @throws LeafdException if there is no answer in time
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public DaemonStatus status() throws InterruptedException {
        return call(CallSpec.status());
    }

    /**
     * As {@link #next}, without waiting.
     *
     * @param tag the tag
     * @return the ID to come
     * @throws IllegalArgumentException if the tag is invalid
     */
    public CompletableFuture<Long> nextAsync(String tag) {
        return callAsync(CallSpec.segment(tag, 1).map(Ids::first));
    }

    /**
     * As {@link #nextMany}, without waiting.
     *
     * @param tag the tag
     * @param count how many
     * @return the IDs to come
     * @throws IllegalArgumentException if an argument is invalid
     */
    public CompletableFuture<Ids> nextManyAsync(String tag, long count) {
        return callAsync(CallSpec.segment(tag, count));
    }

    /**
     * As {@link #snowflake}, without waiting.
     *
     * @return the ID to come
     */
    public CompletableFuture<Long> snowflakeAsync() {
        return callAsync(CallSpec.snowflake(1).map(Ids::first));
    }

    /**
     * As {@link #snowflakes}, without waiting.
     *
     * @param count how many
     * @return the IDs to come
     * @throws IllegalArgumentException if the count is invalid
     */
    public CompletableFuture<Ids> snowflakesAsync(long count) {
        return callAsync(CallSpec.snowflake(count));
    }

    /**
     * As {@link #time}, without waiting.
     *
     * @return the time to come
     */
    public CompletableFuture<Instant> timeAsync() {
        return callAsync(CallSpec.time());
    }

    /**
     * As {@link #status}, without waiting.
     *
     * @return the state to come
     */
    public CompletableFuture<DaemonStatus> statusAsync() {
        return callAsync(CallSpec.status());
    }

    /**
     * Closes the connection and ends the thread. Calls without an answer fail with
     * {@link LeafdException.Closed}, as do later ones.
     */
    @Override
    public void close() {
        loop.close();
    }

    private <T> T call(CallSpec<T> spec) throws InterruptedException {
        return await(new PendingCall<>(spec, timeout), loop);
    }

    /** Makes the call and waits for its result. */
    static <T> T await(PendingCall<T> call, ConnectionLoop loop) throws InterruptedException {
        loop.requireOtherThread();
        loop.submitOrLead(call);
        try {
            return call.result.get();
        } catch (ExecutionException failed) {
            throw ((LeafdException) failed.getCause()).here();
        } catch (InterruptedException interrupted) {
            loop.abandon(call);
            throw interrupted;
        }
    }

    private <T> CompletableFuture<T> callAsync(CallSpec<T> spec) {
        PendingCall<T> call = new PendingCall<>(spec, timeout);
        CompletableFuture<T> result = new CompletableFuture<>();
        call.result.whenCompleteAsync((value, error) -> {
            if (error == null) {
                result.complete(value);
            } else {
                result.completeExceptionally(error);
            }
        }, this::execute);
        result.whenComplete((value, error) -> {
            if (!call.result.isDone()) {
                loop.abandon(call);
            }
        });
        loop.submit(call);
        return result;
    }

    private void execute(Runnable task) {
        try {
            executor.execute(task);
        } catch (RuntimeException | Error refused) {
            // The executor was shut down, or there is no memory for a thread. Better on this thread than never.
            task.run();
        }
    }
}
