package leafd.client;

import java.io.IOException;
import java.nio.channels.Selector;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import leafd.client.wire.MalformedResponseException;

/**
 * The thread of a connection, and who has the lead: only the one with the lead may use the connection. Usually
 * that is the thread, and calls reach it as commands. A caller without others beside it would pay for two wake-ups
 * a call. The thread then gives up the lead, and the caller takes it to send its call and read the answer itself. It
 * hands the lead back as soon as anything else comes up: another call, a lost connection, an interrupt, a slow
 * answer. So a caller leads for a short time while its thread runs, and never completes the call of another.
 *
 * <p>The socket is not blocking, and the selector is what waits: interrupting a thread in a blocking operation
 * on a channel would close the channel for everybody.
 */
final class ConnectionLoop {
    /** The longest time for which a caller has the lead. Then handing over costs little in comparison. */
    private static final long LONGEST_LEAD = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long UNEXPECTED_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);

    /** How long a caller may seem to have the lead before the thread looks whether it still does. */
    private static final long SUSPICIOUS = TimeUnit.SECONDS.toNanos(1);
    private static final Throwable UNFINISHED =
            new IllegalStateException("a caller left in the middle of its call");

    /** The thread has the lead. */
    private static final Object THREAD = new Object();
    /** A caller may take it. */
    private static final Object FREE = new Object();

    /** A caller with the lead. Every time another one, so that nobody takes the lead of the next. */
    private static final class Leader {
        private final Thread caller = Thread.currentThread();

        /** Whether it left without handing over: a stack without room for that, for example. */
        boolean isGone() {
            String here = ConnectionLoop.class.getName();
            return Arrays.stream(caller.getStackTrace()).noneMatch(frame -> frame.getClassName().equals(here));
        }
    }

    private interface Step {
        void run() throws IOException, MalformedResponseException;
    }

    private final Path socket;
    private final String threadName;
    private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
    /** {@link #THREAD}, {@link #FREE} or a {@link Leader}. */
    private final AtomicReference<Object> lead = new AtomicReference<>(THREAD);
    /** Whether the one with the lead waits in the selector, or is about to. */
    private final AtomicBoolean asleep = new AtomicBoolean();
    /** Whether a caller has taken the lead since the thread last checked. */
    private volatile boolean used;
    private volatile boolean closed;
    private volatile boolean ended;
    private volatile Selector selector;
    /** The thread that runs; null before the first call. */
    private volatile Thread thread;

    // For the one with the lead.
    private final Connection connection;
    /** Why a caller's lead has ended in the middle. The thread gives the connection up. */
    private Throwable failure;
    private final LoneCaller loneCaller = new LoneCaller();

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
        connection = new Connection(options, failsFast);
    }

    /** Makes a call. Its result arrives at its deadline at the latest. */
    void submit(PendingCall<?> call) {
        submit(call, false);
    }

    /**
     * Makes a call whose caller does nothing but wait for it, and may therefore serve the connection. Its result
     * is there when this returns, or arrives at its deadline at the latest.
     */
    void submitOrLead(PendingCall<?> call) {
        // A virtual thread may wait for a carrier for any time, and others would wait for its lead.
        boolean mayLead = !VirtualThreads.isCurrent();
        if (mayLead && lead.compareAndSet(FREE, new Leader())) {
            leadFor(call);
        } else {
            submit(call, mayLead);
        }
    }

    private void submit(PendingCall<?> call, boolean mayLead) {
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
        command(() -> {
            loneCaller.called(mayLead && connection.calls.isEmpty(), System.nanoTime());
            connection.calls.add(call);
        });
        // If the thread has ended meanwhile, it may not have seen the command.
        if (ended) {
            call.fail(new LeafdException.Closed("client"));
        }
    }

    /** Drops a call whose caller is gone. */
    void abandon(PendingCall<?> call) {
        command(() -> connection.forget(call));
    }

    synchronized void close() {
        closed = true;
        if (selector == null) {
            ended = true;
        } else {
            selector.wakeup();
            LockSupport.unpark(thread);
        }
    }

    /** Queues work for the thread. The one with the lead sees it before it waits, or is woken. */
    private void command(Runnable command) {
        commands.add(command);
        if (lead.get() == FREE) {
            LockSupport.unpark(thread);
        } else if (asleep.get() && asleep.compareAndSet(true, false)) {
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
                orLose(this::turn);
            }
        } finally {
            closed = true;
            shutDown();
        }
    }

    /** Gives up the connection if the step fails. */
    private void orLose(Step step) {
        try {
            step.run();
        } catch (LeafdException.ProtocolViolation | MalformedResponseException | IOException failure) {
            connection.lost(failure);
        } catch (Throwable unexpected) {
            // Such as OutOfMemoryError. The thread has to live: every call depends on it.
            connection.lost(unexpected);
            LockSupport.parkNanos(UNEXPECTED_PAUSE);
        }
    }

    private void shutDown() {
        connection.close();
        try {
            selector.close();
        } catch (IOException ignored) {
            // The thread ends in any case.
        }
        // From here on, a caller that adds a call also fails it.
        ended = true;
        runCommands();
        connection.calls.failAll(new LeafdException.Closed("client"));
    }

    /** Does everything that can be done now, then waits for the socket, a caller or a deadline. */
    private void turn() throws IOException, MalformedResponseException {
        // Somebody's interrupt would keep the selector from waiting.
        Thread.interrupted();
        long now = System.nanoTime();
        connection.advance(selector, now);
        sleep(connection.untilDue(now));
        // First: an error about the connection concerns every call that was made before it arrived.
        runCommands();
        connection.receive();
        if (loneCaller.isLikely() && connection.isIdle()) {
            lendLead();
            takeBackLead();
        }
    }

    private void runCommands() {
        Runnable command;
        while ((command = commands.poll()) != null) {
            command.run();
        }
    }

    /** Waits in the selector. Returns 0 if the socket is not ready. */
    private int sleep(long nanos) throws IOException {
        int ready;
        asleep.set(true);
        if (nanos <= 0 || !commands.isEmpty() || closed) {
            ready = selector.selectNow(key -> {});
        } else {
            // Rounded up: a moment too late does not turn into a busy loop.
            ready = selector.select(key -> {}, 1 + (nanos - 1) / 1_000_000);
        }
        asleep.set(false);
        return ready;
    }

    /** Frees the lead. Returns once a caller has handed it over, or it is free and the thread needs it. */
    private void lendLead() {
        used = true;
        lead.set(FREE);
        Object seen = FREE;
        long since = System.nanoTime();
        while (true) {
            Object holder = lead.get();
            long now = System.nanoTime();
            if (holder == THREAD) {
                return;
            }
            if (holder != seen) {
                seen = holder;
                since = now;
            }
            if (holder instanceof Leader leader) {
                if (now - since > SUSPICIOUS && leader.isGone() && lead.compareAndSet(leader, THREAD)) {
                    failure = UNFINISHED;
                    return;
                }
            } else if ((!used || !commands.isEmpty() || closed) && lead.compareAndSet(FREE, THREAD)) {
                // Unused, the connection is watched by the thread: the daemon may say goodbye or close it.
                return;
            }
            used = false;
            LockSupport.parkNanos(this, LoneCaller.SOON);
            Thread.interrupted();
        }
    }

    /** Gives the connection up if a caller has failed in the middle. */
    private void takeBackLead() {
        if (failure != null) {
            Throwable cause = failure;
            failure = null;
            connection.lost(cause);
        }
    }

    /** Makes a call in the thread of its caller, which has taken the lead. */
    private void leadFor(PendingCall<?> call) {
        Object next = THREAD;
        failure = UNFINISHED;
        try {
            connection.calls.add(call);
            exchange(call);
            failure = null;
            if (connection.isIdle() && commands.isEmpty()) {
                next = FREE;
            }
        } catch (Throwable cause) {
            // Also an error of this thread alone, such as a full stack. The thread of the connection repeats the call.
            failure = cause;
        } finally {
            used = true;
            lead.set(next);
            // Looks again: until now, whoever queued a command has relied on this caller.
            if (next == THREAD || !commands.isEmpty() || closed) {
                LockSupport.unpark(thread);
            }
        }
    }

    /** Sends the queued call and reads, until the answer is there or the thread has to go on with it. */
    private void exchange(PendingCall<?> call) throws IOException, MalformedResponseException {
        // First: nothing may be sent after a goodbye.
        connection.receive();
        long now = System.nanoTime();
        long left = Math.min(LONGEST_LEAD, call.deadline - now);
        if (left <= 0 || !connection.isOpen()) {
            return;
        }
        long end = now + left;
        connection.send(now);
        while (connection.isOpen() && !call.result.isDone() && left > 0) {
            // Not ready: it is late, or a command, an interrupt or `close` has ended the wait.
            if (sleep(left) == 0) {
                return;
            }
            connection.receive();
            left = end - System.nanoTime();
        }
    }
}
