package leafd.client;

import java.io.IOException;
import java.nio.channels.Selector;
import java.nio.file.Path;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import leafd.client.wire.MalformedResponseException;
import leafd.client.wire.Reply;
import leafd.client.wire.Request;
import leafd.client.wire.Response;

/**
 * The connection and its calls as a state machine: connects, sends, delivers answers, ends calls at their
 * deadline. It never waits and knows no thread. One thread at a time uses it: the one that has the lead in
 * {@link ConnectionLoop}.
 */
final class Connection {
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
    private static final long LONGEST_SLEEP = TimeUnit.HOURS.toNanos(1);

    private enum Phase { NONE, GREETING, OPEN, ENDING }

    final CallTable calls;
    private final Path socket;
    private final Backoff backoff;
    /** Whether a failed attempt to connect fails the calls, because their caller backs off by itself. */
    private final boolean failsFast;

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

    Connection(LeafdOptions options, boolean failsFast) {
        socket = options.socket();
        this.failsFast = failsFast;
        calls = new CallTable(failsFast ? 1 : Integer.MAX_VALUE);
        backoff = new Backoff(options.backoffMin().toNanos(), options.backoffMax().toNanos());
    }

    boolean isOpen() {
        return phase == Phase.OPEN;
    }

    /** Whether it is open and has nothing to do. */
    boolean isIdle() {
        return phase == Phase.OPEN && calls.isEmpty() && channel.isFlushed();
    }

    /** Does everything that can be done now, except reading. */
    void advance(Selector selector, long now) {
        expire(now);
        switch (phase) {
            case NONE -> connectIfDue(selector, now);
            case GREETING -> {
                flush(now);
                if (now - phaseEnds >= 0) {
                    lost(endingWhy != null ? endingWhy : ConnectionFailure.lost(socket, SILENT));
                }
            }
            case OPEN -> send(now);
            case ENDING -> {
                if (!calls.anySent() || now - phaseEnds >= 0) {
                    lost(endingWhy);
                }
            }
        }
        if (channel != null) {
            channel.selectInterest(!mute);
        }
    }

    /** How long until there is something to do even if no bytes arrive. */
    long untilDue(long now) {
        long nanos = calls.untilDue(now, LONGEST_SLEEP);
        if (phase == Phase.NONE && calls.anyQueued()) {
            return failsFast ? 0 : Math.min(nanos, backoff.pause(now));
        }
        if (phase == Phase.GREETING || phase == Phase.ENDING) {
            return Math.min(nanos, Math.max(0, phaseEnds - now));
        }
        return nanos;
    }

    /** Sends the calls that are queued. Only if it is open. */
    void send(long now) {
        calls.send(channel.out, LARGEST_FRAME, now);
        flush(now);
    }

    /** Drops a call whose caller is gone. */
    void forget(PendingCall<?> call) {
        forget(call, false);
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

    private void connectIfDue(Selector selector, long now) {
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
        if (mute || channel.isFlushed()) {
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

    /** Reads what has arrived, and delivers it. */
    void receive() throws MalformedResponseException {
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
            // Before the buffer is emptied below.
            boolean drained = channel.isDrained();
            long now = System.nanoTime();
            Response response;
            while (channel != null && (response = channel.next()) != null) {
                calls.heard(now);
                understand(response);
            }
            if (drained) {
                return;
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

    /** The peer has broken the protocol, or something unexpected has happened. */
    void lost(Throwable cause) {
        if (cause instanceof LeafdException.ProtocolViolation violation) {
            lost(ConnectionFailure.protocol(violation));
        } else if (cause instanceof MalformedResponseException malformed) {
            lost(ConnectionFailure.protocol(new LeafdException.ProtocolViolation(malformed.getMessage())));
        } else if (cause instanceof IOException failure) {
            lost(ConnectionFailure.io(socket, failure));
        } else {
            lost(new ConnectionFailure(
                    new LeafdException.Unavailable(socket, cause.toString(), true, cause), true, 0));
        }
    }

    /** The connection has ended, or could not be made. */
    private void lost(ConnectionFailure failure) {
        Phase before = phase;
        close();
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

    /** Closes the socket. */
    void close() {
        if (channel != null) {
            channel.close();
            channel = null;
        }
    }
}
