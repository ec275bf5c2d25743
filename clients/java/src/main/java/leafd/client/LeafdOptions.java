package leafd.client;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;

/**
 * How to reach the daemon and how long to try. Immutable: each method returns a changed copy.
 */
public final class LeafdOptions {
    /** Keeps deadlines within the range of the clock. */
    private static final Duration LONGEST = Duration.ofHours(24);
    /** Without a pause, a client of a daemon that is down would use up a core. */
    private static final Duration SHORTEST_PAUSE = Duration.ofMillis(1);
    /** What the JDK takes, which is one byte less than Linux does. */
    private static final int MAX_PATH_BYTES = 106;
    private static final String COMMON_PARALLELISM = "java.util.concurrent.ForkJoinPool.common.parallelism";

    private final Path socket;
    private final Duration timeout;
    private final Duration backoffMin;
    private final Duration backoffMax;
    private final Executor executor;

    private LeafdOptions(
            Path socket, Duration timeout, Duration backoffMin, Duration backoffMax, Executor executor) {
        this.socket = socket;
        this.timeout = timeout;
        this.backoffMin = backoffMin;
        this.backoffMax = backoffMax;
        this.executor = executor;
    }

    /**
     * The defaults: the socket that {@link #defaultSocket()} finds, a timeout of 5 s, pauses of 5 ms to
     * 500 ms between attempts to connect, and results on the common pool.
     *
     * @return the defaults
     * @throws IllegalArgumentException if {@code LEAFD_SOCKET} is no path that a socket can have
     */
    public static LeafdOptions defaults() {
        return at(defaultSocket());
    }

    /**
     * The defaults with another socket.
     *
     * @param socket the path of the daemon's socket
     * @return the options
     * @throws IllegalArgumentException if the path is empty or longer than 106 bytes
     */
    public static LeafdOptions at(Path socket) {
        return new LeafdOptions(
                checked(socket),
                Duration.ofSeconds(5),
                Duration.ofMillis(5),
                Duration.ofMillis(500),
                defaultExecutor(Integer.getInteger(COMMON_PARALLELISM, 1)));
    }

    /**
     * Finds the socket of a client that was given no path. The first rule that applies wins:
     *
     * <ol>
     *   <li>{@code $LEAFD_SOCKET}, if it is set and not empty;
     *   <li>for users other than root, {@code $XDG_RUNTIME_DIR/leafd/leafd.sock} if the directory
     *       {@code $XDG_RUNTIME_DIR/leafd} exists;
     *   <li>for users other than root, {@code /tmp/leafd-<uid>/leafd.sock} if that directory exists, belongs
     *       to the user and is not writable by others;
     *   <li>{@code /run/leafd/leafd.sock}.
     * </ol>
     *
     * @return the path; whether a socket is there does not matter
     */
    public static Path defaultSocket() {
        return SocketSearch.ofThisProcess().find();
    }

    /**
     * Sets the path of the daemon's socket.
     *
     * @param socket the path
     * @return the changed options
     * @throws IllegalArgumentException if the path is empty or longer than 106 bytes
     */
    public LeafdOptions socket(Path socket) {
        return new LeafdOptions(checked(socket), timeout, backoffMin, backoffMax, executor);
    }

    /**
     * Sets the timeout of a call, which covers connecting, waiting and repeating.
     *
     * @param timeout the timeout; more than 24 hours is lowered to that
     * @return the changed options
     * @throws IllegalArgumentException if it is negative
     */
    public LeafdOptions timeout(Duration timeout) {
        return new LeafdOptions(socket, cut(timeout), backoffMin, backoffMax, executor);
    }

    /**
     * Sets the pauses between attempts to connect. They double from {@code min} to {@code max}; random jitter
     * shortens each by up to half. The first attempt after a working connection is immediate.
     *
     * @param min the first pause; less than 1 ms is raised to that
     * @param max the longest pause; less than {@code min} is raised to that
     * @return the changed options
     * @throws IllegalArgumentException if one is negative
     */
    public LeafdOptions backoff(Duration min, Duration max) {
        Duration first = longer(cut(min), SHORTEST_PAUSE);
        return new LeafdOptions(socket, timeout, first, longer(cut(max), first), executor);
    }

    /**
     * Sets where the results of the asynchronous calls are delivered, so that what depends on them never
     * holds up the connection. An executor that runs tasks in the thread that submits them, such as
     * {@code Runnable::run}, runs them in the thread of the connection: they must not wait for anything, and a
     * blocking call of the same client throws {@link IllegalStateException} there.
     *
     * @param executor the executor; the common pool by default, or a thread per result if the common pool has
     *     no threads
     * @return the changed options
     */
    public LeafdOptions executor(Executor executor) {
        Objects.requireNonNull(executor, "executor");
        return new LeafdOptions(socket, timeout, backoffMin, backoffMax, executor);
    }

    /** With a parallelism of 0, the common pool accepts tasks and never runs them. */
    static Executor defaultExecutor(int commonParallelism) {
        return commonParallelism == 0 ? LeafdOptions::runInNewThread : ForkJoinPool.commonPool();
    }

    private static void runInNewThread(Runnable task) {
        Thread thread = new Thread(task, "leafd-result");
        thread.setDaemon(true);
        thread.start();
    }

    Path socket() {
        return socket;
    }

    Duration timeout() {
        return timeout;
    }

    Duration backoffMin() {
        return backoffMin;
    }

    Duration backoffMax() {
        return backoffMax;
    }

    Executor executor() {
        return executor;
    }

    /** Checks a timeout, and lowers it to 24 hours. */
    static Duration cut(Duration timeout) {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("the duration " + timeout + " is negative");
        }
        return timeout.compareTo(LONGEST) > 0 ? LONGEST : timeout;
    }

    private static Duration longer(Duration one, Duration other) {
        return one.compareTo(other) > 0 ? one : other;
    }

    private static Path checked(Path socket) {
        String path = socket.toString();
        if (path.isEmpty()) {
            throw new IllegalArgumentException("the path of the socket is empty");
        }
        int bytes = path.getBytes(StandardCharsets.UTF_8).length;
        if (bytes > MAX_PATH_BYTES) {
            throw new IllegalArgumentException(
                    "the path of the socket has " + bytes + " bytes; at most " + MAX_PATH_BYTES + " are possible");
        }
        return socket;
    }
}
