package leafd.client;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import leafd.client.wire.Reply;

/**
 * Every call without a result: queued, in flight, or in flight without a caller. No socket and no clock; one
 * thread at a time uses it.
 */
final class CallTable {
    /** The ID of a client's first call. {@code Hello} has 1 on every connection. */
    static final long FIRST_ID = 2;
    /**
     * How long a daemon has to say nothing before calls that still wait lose their connection to it. A caller
     * with a short timeout must not cost patient callers the answers that they are waiting for.
     */
    private static final long SILENCE = TimeUnit.SECONDS.toNanos(1);

    private final ArrayDeque<PendingCall<?>> queued = new ArrayDeque<>();
    private final Map<Long, PendingCall<?>> sent = new HashMap<>();
    /** The daemon still counts these, and may answer them. */
    private final Set<Long> abandoned = new HashSet<>();
    /** Counts on over all connections, so that no ID is ever used twice. */
    private long nextId = FIRST_ID;
    private long maxInFlight;
    private long maxCount;
    /** The newest request when the last message arrived: younger ones may still be on their way. */
    private long heardUpTo;
    /** When the last message arrived, or the daemon first owed an answer after that. */
    private long quietSince;
    /** A call fails when more connections than these have ended under it. */
    private final int maxLosses;
    /** No call is due before this time. */
    private long nextDeadline = Long.MAX_VALUE;
    private boolean anyDeadline;

    CallTable(int maxLosses) {
        this.maxLosses = maxLosses;
    }

    void add(PendingCall<?> call) {
        queued.addLast(call);
        dueAt(call.deadline);
    }

    boolean isEmpty() {
        return queued.isEmpty() && sent.isEmpty();
    }

    boolean anyQueued() {
        return !queued.isEmpty();
    }

    boolean anySent() {
        return !sent.isEmpty();
    }

    void connected(long maxInFlight, long maxCount) {
        this.maxInFlight = Math.max(1, maxInFlight);
        this.maxCount = Math.max(1, maxCount);
        heardUpTo = nextId - 1;
    }

    /** Writes queued calls as long as the daemon's limit and the buffer have room. */
    void send(ByteBuffer out, int largestFrame, long now) {
        while (!queued.isEmpty() && hasRoom() && out.remaining() >= largestFrame) {
            PendingCall<?> call = queued.getFirst();
            long id = nextId++;
            byte[] frame = call.frame(id, now, maxCount);
            if (sent.isEmpty() && abandoned.isEmpty()) {
                quietSince = now;
            }
            sent.put(id, call);
            // Only now: if memory runs out before, the call is still queued.
            queued.removeFirst();
            out.put(frame);
        }
    }

    private boolean hasRoom() {
        return sent.size() + abandoned.size() < maxInFlight;
    }

    /** A message has arrived, so the daemon is alive. */
    void heard(long now) {
        heardUpTo = nextId - 1;
        quietSince = now;
    }

    void answer(long id, Reply reply) {
        PendingCall<?> call = sent.get(id);
        if (call == null) {
            late(id);
            return;
        }
        // Throws before the call is removed if the answer breaks the protocol.
        Runnable deliver = call.read(reply);
        sent.remove(id);
        deliver.run();
    }

    /** The stopping daemon turned this request away. */
    void repeat(long id, LeafdException why) {
        PendingCall<?> call = sent.remove(id);
        if (call == null) {
            late(id);
        } else {
            queueAgain(call, why);
        }
    }

    private void queueAgain(PendingCall<?> call, LeafdException why) {
        call.losses++;
        if (call.losses > maxLosses) {
            call.fail(why);
        } else {
            queued.addFirst(call);
        }
    }

    private void late(long id) {
        if (!abandoned.remove(id)) {
            throw new LeafdException.ProtocolViolation("it answered request " + Long.toUnsignedString(id)
                    + ", which was never sent or already has an answer");
        }
    }

    /**
     * Drops a call whose caller is gone. Returns whether the connection is stuck and has to be replaced: a
     * daemon answers within the timeout of a request, so it is stuck if a call is overdue and nothing has
     * arrived since it was sent, or if abandoned calls fill the daemon's limit. If others wait, the silence
     * has to last.
     */
    boolean forget(PendingCall<?> call, boolean overdue, long now) {
        if (!sent.remove(call.id, call)) {
            queued.remove(call);
            return false;
        }
        abandoned.add(call.id);
        boolean silent = heardUpTo < call.id && (sent.isEmpty() || now - quietSince >= SILENCE);
        return overdue && silent || abandoned.size() >= maxInFlight;
    }

    /** The calls whose deadline has passed. The caller forgets each. */
    List<PendingCall<?>> overdue(long now) {
        if (!anyDeadline || now - nextDeadline < 0) {
            return List.of();
        }
        anyDeadline = false;
        List<PendingCall<?>> overdue = new ArrayList<>();
        for (Collection<PendingCall<?>> all : List.of(queued, sent.values())) {
            for (PendingCall<?> call : all) {
                if (now - call.deadline >= 0) {
                    overdue.add(call);
                } else {
                    dueAt(call.deadline);
                }
            }
        }
        return overdue;
    }

    /** How long until a call may be due, at most {@code longest}. */
    long untilDue(long now, long longest) {
        return anyDeadline ? Math.min(longest, Math.max(0, nextDeadline - now)) : longest;
    }

    private void dueAt(long deadline) {
        if (!anyDeadline || deadline - nextDeadline < 0) {
            nextDeadline = deadline;
            anyDeadline = true;
        }
    }

    /** The connection has ended: queues every call in flight again, in its old place. */
    void disconnected(LeafdException why) {
        abandoned.clear();
        List<PendingCall<?>> again = new ArrayList<>(sent.values());
        sent.clear();
        again.sort(Comparator.comparingLong((PendingCall<?> call) -> call.id).reversed());
        again.forEach(call -> queueAgain(call, why));
    }

    /** Notes that the connection is given up because the daemon does not answer. */
    void stuck() {
        sent.values().forEach(call -> call.wasStuck = true);
    }

    void failSent(LeafdException error) {
        abandoned.clear();
        List<PendingCall<?>> calls = new ArrayList<>(sent.values());
        sent.clear();
        calls.forEach(call -> call.fail(error));
    }

    void failAll(LeafdException error) {
        failSent(error);
        List<PendingCall<?>> calls = new ArrayList<>(queued);
        queued.clear();
        calls.forEach(call -> call.fail(error));
    }
}
