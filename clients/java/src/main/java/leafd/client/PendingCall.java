package leafd.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import leafd.client.wire.Reply;

/**
 * A call without a result yet. All but {@link #result} and {@link #deadline} belongs to the thread that has the
 * lead of the {@link ConnectionLoop}.
 */
final class PendingCall<T> {
    private static final long MAX_MARGIN_MS = 50;
    private static final long MAX_U32 = 0xffff_ffffL;

    final CompletableFuture<T> result = new CompletableFuture<>();
    /** In nanoseconds of {@link System#nanoTime}. */
    final long deadline;
    /** Connections that ended while this call was in flight. */
    int losses;
    /** Whether one of them was given up because nothing was answered. */
    boolean wasStuck;
    /** The ID under which it was sent last. */
    long id;

    private final CallSpec<T> spec;
    private final Duration timeout;

    PendingCall(CallSpec<T> spec, Duration timeout) {
        this.spec = spec;
        this.timeout = timeout;
        deadline = System.nanoTime() + timeout.toNanos();
    }

    byte[] frame(long id, long now, long maxCount) {
        this.id = id;
        return spec.writer().frame(id, daemonTimeoutMs(deadline - now), maxCount);
    }

    /** Reads the answer. The protocol is broken if this throws, and the call then still has no result. */
    Runnable read(Reply reply) {
        if (reply instanceof Reply.Error error) {
            LeafdException refused = new LeafdException.Refused(error);
            return () -> result.completeExceptionally(refused);
        }
        T value = spec.reader().read(reply);
        return () -> result.complete(value);
    }

    void fail(LeafdException error) {
        result.completeExceptionally(error);
    }

    LeafdException deadlineExceeded() {
        return new LeafdException.DeadlineExceeded(spec.name(), timeout);
    }

    /**
     * The timeout to send: a little less than the time left, so that the daemon's error, which names the
     * cause, arrives before the caller's deadline. Never 0, which stands for the daemon's default.
     */
    static long daemonTimeoutMs(long leftNanos) {
        long margin = Math.min(leftNanos / 10, Duration.ofMillis(MAX_MARGIN_MS).toNanos());
        return Math.min(MAX_U32, Math.max(1, Duration.ofNanos(leftNanos - margin).toMillis()));
    }
}
