package leafd.client;

import java.io.IOException;
import java.nio.channels.Selector;
import java.nio.file.Path;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import leafd.client.wire.MalformedResponseException;
import leafd.client.wire.Reply;
import leafd.client.wire.Request;
import leafd.client.wire.Response;

/**
 * The one thread that uses the socket. It connects once a call is queued, sends, delivers answers, watches
 * deadlines and reconnects.
 *
 * <p>No caller's thread touches the channel, because interrupting a thread within an operation on a channel
 * closes the channel for everybody.
 */
final class ConnectionLoop {
    private static final long HELLO_ID = 1;
    private static final String STOPPING = "the daemon is stopping";
    private static final String SILENT = "it did not say hello in time";
    /** The largest request of this client: a tag of 128 characters of 4 bytes. */
    private static final int LARGEST_FRAME = 4 + 12 + 8 + 4 * 128 + 8;
    /**
     * How long to read on after the daemon has said goodbye or writing has failed. Answers from memory take
     * far less; other calls are repeated on the next connection.
     */
    private static final long DRAIN = TimeUnit.MILLISECONDS.toNanos(100);
    /** How long one attempt may wait for the answer to Hello. The daemon itself waits as long for Hello. */
    private static final long HELLO_PATIENCE = TimeUnit.SECONDS.toNanos(10);
    /** Reads in a row before the thread looks at new calls and deadlines again. */
    private static final int READS = 16;
    private static final long UNEXPECTED_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_SLEEP = TimeUnit.HOURS.toNanos(1);

    /** What the connection is doing. */
    private enum Phase { NONE, GREETING, OPEN, ENDING }

    private final Path socket;
    private final String threadName;
    private final Backoff backoff;
    /** Whether a failed attempt to connect fails the calls, because their caller backs off by itself. */
    private final boolean failsFast;
    private final CallTable calls;
    private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean asleep = new AtomicBoolean();
    private volatile boolean closed;
    private volatile boolean ended;
    private volatile Selector selector;
    /** The thread that runs; null before the first call. */
    private volatile Thread thread;

    private Phase phase = Phase.NONE;
    private Channel channel;
    /** When GREETING or ENDING is over. */
    private long phaseEnds;
    /** Whether nothing may be written to this connection any more. */
    private boolean mute;
    /** Why the connection is ending. */
    private ConnectionFailure endingWhy;
    /** Why the last attempt failed or the last connection ended; null once connected. */
    private ConnectionFailure lastFailure;

    /** A connection for a client, which repeats a call until its deadline. */
    static ConnectionLoop patient(LeafdOptions options, String threadName) {
        return new ConnectionLoop(options, threadName, false);
    }

    /**
     * A connection for a pool: a call fails if no connection can be made. It is repeated once, since the daemon
     * may have closed a connection that was not used for long.
     */
    static ConnectionLoop failingFast(LeafdOptions options, String threadName) {
        return new ConnectionLoop(options, threadName, true);
    }

    private ConnectionLoop(LeafdOptions options, String threadName, boolean failsFast) {
        socket = options.socket();
        this.threadName = threadName;
        this.failsFast = failsFast;
        calls = new CallTable(failsFast ? 1 : Integer.MAX_VALUE);
        backoff = new Backoff(options.backoffMin().toNanos(), options.backoffMax().toNanos());
    }

    /** Makes a call. Its result arrives at its deadline at the latest. */
    void submit(PendingCall<?> call) {
        if (closed) {
            call.fail(new LeafdException.Closed("client"));
            return;
        }
        try {
            start();
        } catch (IOException | OutOfMemoryError noThread) {
            call.fail(new LeafdException.Unavailable(
                    socket, "no thread or selector for the connection: " + noThread, true, noThread));
            return;
        }
        command(() -> calls.add(call));
        // If the thread has ended meanwhile, it may not have seen the command.
        if (ended) {
            call.fail(new LeafdException.Closed("client"));
        }
    }

    /** Drops a call whose caller is gone. */
    void abandon(PendingCall<?> call) {
        command(() -> forget(call, false));
    }

    synchronized void close() {
        closed = true;
        if (selector == null) {
            ended = true;
        } else {
            selector.wakeup();
        }
    }

    private void command(Runnable command) {
        commands.add(command);
        if (asleep.get() && asleep.compareAndSet(true, false)) {
            selector.wakeup();
        }
    }

    /** Throws if the caller is the thread of the connection: nothing would ever wake it. */
    void requireOtherThread() {
        if (Thread.currentThread() == thread) {
            throw new IllegalStateException("a blocking call in the thread of the connection would never end;"
                    + " use an executor that runs tasks in other threads, or the asynchronous call");
        }
    }

    private void start() throws IOException {
        if (thread == null) {
            startOnce();
        }
    }

    private synchronized void startOnce() throws IOException {
        // After `close`, `ended` says that nobody starts it any more.
        if (thread != null || closed) {
            return;
        }
        Selector opened = Selector.open();
        Thread started = new Thread(null, this::run, threadName, 0, false);
        started.setDaemon(true);
        selector = opened;
        try {
            started.start();
        } catch (Throwable noThread) {
            selector = null;
            opened.close();
            throw noThread;
        }
        // Last: a caller that sees it need not check whether the thread could be started.
        thread = started;
    }

    private void run() {
        try {
            while (!closed) {
                turnOrLose();
            }
        } finally {
            closed = true;
            shutDown();
        }
    }

    private void turnOrLose() {
        try {
            turn();
        } catch (LeafdException.ProtocolViolation violation) {
            lost(ConnectionFailure.protocol(violation));
        } catch (MalformedResponseException malformed) {
            lost(ConnectionFailure.protocol(new LeafdException.ProtocolViolation(malformed.getMessage())));
        } catch (IOException failure) {
            lost(ConnectionFailure.io(socket, failure));
        } catch (Throwable unexpected) {
            // Such as OutOfMemoryError. The thread has to live: every call depends on it.
            lost(new ConnectionFailure(
                    new LeafdException.Unavailable(socket, unexpected.toString(), true, unexpected), true, 0));
            LockSupport.parkNanos(UNEXPECTED_PAUSE);
        }
    }

    private void shutDown() {
        if (channel != null) {
            channel.close();
        }
        try {
            selector.close();
        } catch (IOException ignored) {
            // The thread ends in any case.
        }
        // From here on, a caller that adds a call also fails it.
        ended = true;
        runCommands();
        calls.failAll(new LeafdException.Closed("client"));
    }

    /** Does everything that can be done now, then waits for the socket, a caller or a deadline. */
    private void turn() throws IOException, MalformedResponseException {
        // Somebody's interrupt would close the channel.
        Thread.interrupted();
        long now = System.nanoTime();
        expire(now);
        switch (phase) {
            case NONE -> connectIfDue(now);
            case GREETING -> {
                flush(now);
                if (now - phaseEnds >= 0) {
                    lost(endingWhy != null ? endingWhy : ConnectionFailure.lost(socket, SILENT));
                }
            }
            case OPEN -> {
                calls.send(channel.out, LARGEST_FRAME, now);
                flush(now);
            }
            case ENDING -> {
                if (!calls.anySent() || now - phaseEnds >= 0) {
                    lost(endingWhy);
                }
            }
        }
        sleep(now);
        // First: an error about the connection concerns every call that was made before it arrived.
        runCommands();
        receive();
    }

    private void runCommands() {
        Runnable command;
        while ((command = commands.poll()) != null) {
            command.run();
        }
    }

    private void expire(long now) {
        boolean connected = phase == Phase.OPEN || phase == Phase.ENDING;
        ConnectionFailure failure = lastFailure != null ? lastFailure : ConnectionFailure.lost(socket, SILENT);
        for (PendingCall<?> call : calls.overdue(now)) {
            forget(call, true);
            call.fail(connected || call.wasStuck ? call.deadlineExceeded() : failure.error());
        }
    }

    private void forget(PendingCall<?> call, boolean overdue) {
        if (calls.forget(call, overdue, System.nanoTime()) && phase != Phase.NONE) {
            calls.stuck();
            lost(ConnectionFailure.lost(socket, "the daemon stopped answering"));
        }
    }

    private void connectIfDue(long now) {
        if (!calls.anyQueued() || !failsFast && backoff.pause(now) > 0) {
            return;
        }
        try {
            channel = Channel.connect(socket, selector);
        } catch (IOException failure) {
            lost(ConnectionFailure.io(socket, failure));
            return;
        }
        phase = Phase.GREETING;
        phaseEnds = now + HELLO_PATIENCE;
        channel.out.put(Request.hello(HELLO_ID, Request.VERSION));
        flush(now);
    }

    /**
     * Writes. After a failure, everything that is still there to be read is read first: an error of the
     * daemon says more.
     */
    private void flush(long now) {
        if (mute || channel.out.position() == 0) {
            return;
        }
        try {
            channel.flush();
        } catch (IOException failure) {
            mute = true;
            end(ConnectionFailure.io(socket, failure), now);
        }
    }

    /** Reads on for a moment, then gives up the connection. */
    private void end(ConnectionFailure why, long now) {
        mute = true;
        if (phase != Phase.ENDING) {
            if (phase == Phase.OPEN) {
                phase = Phase.ENDING;
            }
            phaseEnds = now + DRAIN;
            endingWhy = why;
        }
    }

    private void sleep(long now) throws IOException {
        long nanos = calls.untilDue(now, LONGEST_SLEEP);
        if (phase == Phase.NONE && calls.anyQueued()) {
            nanos = failsFast ? 0 : Math.min(nanos, backoff.pause(now));
        } else if (phase == Phase.GREETING || phase == Phase.ENDING) {
            nanos = Math.min(nanos, Math.max(0, phaseEnds - now));
        }
        if (channel != null) {
            channel.selectInterest(!mute);
        }
        asleep.set(true);
        if (nanos <= 0 || !commands.isEmpty() || closed) {
            selector.selectNow(key -> {});
        } else {
            // Rounded up: a moment too late does not turn into a busy loop.
            selector.select(key -> {}, 1 + (nanos - 1) / 1_000_000);
        }
        asleep.set(false);
    }

    private void receive() throws IOException, MalformedResponseException {
        for (int i = 0; i < READS && channel != null; i++) {
            int read;
            try {
                read = channel.read();
            } catch (IOException failure) {
                lost(endingWhy != null ? endingWhy : ConnectionFailure.io(socket, failure));
                return;
            }
            if (read == 0) {
                return;
            }
            if (read < 0) {
                lost(endingWhy != null ? endingWhy
                        : ConnectionFailure.lost(socket, "the daemon closed the connection"));
                return;
            }
            long now = System.nanoTime();
            Response response;
            while (channel != null && (response = channel.next()) != null) {
                calls.heard(now);
                understand(response);
            }
        }
    }

    private void understand(Response response) {
        long id = response.id();
        Reply reply = response.reply();
        boolean stopping = reply instanceof Reply.Error error && error.code() == 309;
        if (id == 0) {
            if (stopping || reply instanceof Reply.Goodbye) {
                goodbye();
            } else if (reply instanceof Reply.Error error) {
                lost(ConnectionFailure.refused(error));
            } else {
                throw new LeafdException.ProtocolViolation("it sent " + reply.name() + " without a request");
            }
        } else if (phase == Phase.GREETING) {
            if (id != HELLO_ID) {
                throw new LeafdException.ProtocolViolation(
                        "it answered request " + Long.toUnsignedString(id) + ", which was never sent");
            }
            greeted(reply, stopping);
        } else if (stopping) {
            calls.repeat(id, ConnectionFailure.lost(socket, STOPPING).error());
            goodbye();
        } else {
            calls.answer(id, reply);
            backoff.answered();
        }
    }

    private void greeted(Reply reply, boolean stopping) {
        if (stopping) {
            goodbye();
        } else if (reply instanceof Reply.Error error) {
            lost(ConnectionFailure.refused(error));
        } else if (reply instanceof Reply.Hello hello) {
            if (hello.version() != Request.VERSION) {
                throw new LeafdException.ProtocolViolation(
                        "it chose protocol version " + hello.version() + ", which was not offered");
            }
            phase = Phase.OPEN;
            lastFailure = null;
            calls.connected(hello.maxInFlight(), hello.maxCount());
            if (mute) {
                // Writing has failed meanwhile.
                end(endingWhy, System.nanoTime());
            }
        } else {
            throw new LeafdException.ProtocolViolation("it answered with " + reply.name() + " instead of Hello");
        }
    }

    private void goodbye() {
        ConnectionFailure why = ConnectionFailure.lost(socket, STOPPING);
        if (phase == Phase.GREETING) {
            lost(why);
        } else {
            end(why, System.nanoTime());
        }
    }

    /** The connection has ended, or could not be made. */
    private void lost(ConnectionFailure failure) {
        Phase before = phase;
        if (channel != null) {
            channel.close();
            channel = null;
        }
        phase = Phase.NONE;
        mute = false;
        endingWhy = null;
        lastFailure = failure;
        backoff.lost(System.nanoTime(), ThreadLocalRandom.current().nextDouble(),
                TimeUnit.MILLISECONDS.toNanos(failure.retryAfterMs()));
        boolean wasConnected = before == Phase.OPEN || before == Phase.ENDING;
        if (!wasConnected && (failure.fatal() || failsFast)) {
            calls.failAll(failure.error());
        } else if (failure.fatal()) {
            // One of the requests in flight may be the cause, so none is repeated.
            calls.failSent(failure.error());
        } else {
            calls.disconnected(failure.error());
        }
    }
}
