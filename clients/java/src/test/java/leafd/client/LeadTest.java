package leafd.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import leafd.client.FakeDaemon.Asked;
import leafd.client.FakeDaemon.Peer;
import leafd.client.wire.Run;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/**
 * Callers that serve the connection themselves. On a machine too slow for a lone caller to be seen as one, the
 * thread of the connection serves them, and the tests hold as well.
 */
public class LeadTest {
    @Rule public final Timeout patience = Timeout.seconds(60);

    private FakeDaemon daemon;
    private LeafdClient client;
    private volatile Peer peer;
    private long nextId = 1;

    @Before
    public void start() throws Exception {
        daemon = new FakeDaemon();
        client = LeafdClient.create(daemon.options().executor(Runnable::run));
        FutureTask<Long> first = call(client);
        peer = daemon.greet();
        answer(first);
        freeTheLead();
    }

    @After
    public void stop() throws IOException {
        client.close();
        peer.close();
        daemon.close();
    }

    /** Makes a blocking call in a thread of its own. */
    private static FutureTask<Long> call(LeafdClient client) {
        FutureTask<Long> call = new FutureTask<>(() -> client.next("t"));
        new Thread(call).start();
        return call;
    }

    private static <T> T get(FutureTask<T> call) throws Exception {
        return call.get(30, TimeUnit.SECONDS);
    }

    private static <E extends Throwable> E failure(Class<E> kind, FutureTask<?> call) {
        Throwable cause = assertThrows(ExecutionException.class, () -> get(call)).getCause();
        assertTrue(cause.toString(), kind.isInstance(cause));
        return kind.cast(cause);
    }

    private void answer(FutureTask<Long> call) throws Exception {
        peer.send(FakeDaemon.ids(peer.read().id, nextId, 1));
        assertEquals(nextId++, (long) get(call));
    }

    /** Makes calls one after the other, until the next caller can take the lead. */
    private void freeTheLead() throws Exception {
        for (int i = 0; i < LoneCaller.CALLS + 2; i++) {
            answer(call(client));
        }
    }

    private static boolean leads(Thread caller) {
        return Arrays.stream(caller.getStackTrace()).anyMatch(frame -> frame.getMethodName().equals("exchange"));
    }

    @Test
    public void aLoneCallerServesTheConnectionItself() throws Exception {
        boolean led = false;
        while (!led) {
            FutureTask<Long> call = new FutureTask<>(() -> client.next("t"));
            Thread caller = new Thread(call);
            caller.start();
            Asked asked = peer.read();
            led = leads(caller);
            peer.send(FakeDaemon.ids(asked.id, nextId, 1));
            assertEquals(nextId++, (long) get(call));
        }
    }

    @Test
    public void aCallerHandsOverAnAnswerThatTakesLongAndNobodyLeadsUntilItIsThere() throws Exception {
        for (int i = 0; i < 20; i++) {
            FutureTask<Long> slow = call(client);
            Asked first = peer.read();
            // A little longer than a caller leads.
            Thread.sleep(11);
            FutureTask<Long> other = new FutureTask<>(() -> client.next("t"));
            Thread caller = new Thread(other);
            caller.start();
            Asked second = peer.read();
            assertFalse(leads(caller));
            peer.send(FakeDaemon.ids(second.id, 1001, 1));
            assertEquals(1001, (long) get(other));
            assertFalse(slow.isDone());
            peer.send(FakeDaemon.ids(first.id, 1000, 1));
            assertEquals(1000, (long) get(slow));
            freeTheLead();
        }
    }

    @Test
    public void aCallEndsAtItsDeadlineAndItsLateAnswerIsDropped() throws Exception {
        for (int ms : new int[] {5, 100}) {
            FutureTask<Long> other = call(client);
            long otherId = peer.read().id;
            FutureTask<Long> late = call(client.withTimeout(Duration.ofMillis(ms)));
            failure(LeafdException.DeadlineExceeded.class, late);
            peer.send(FakeDaemon.ids(otherId, nextId, 1));
            assertEquals(nextId++, (long) get(other));
            // A slow machine may have given up the call before it was sent.
            client.nextAsync("t");
            for (Asked asked = peer.read(); ; asked = peer.read()) {
                peer.send(FakeDaemon.ids(asked.id, 666, 1));
                if (asked.timeoutMs > 1000) {
                    break;
                }
            }
            freeTheLead();
        }
    }

    @Test
    public void aLoneCallEndsAtItsDeadlineThoughBytesArriveNowAndThen() throws Exception {
        // Long enough for a slow machine to send the request.
        FutureTask<Long> late = call(client.withTimeout(Duration.ofSeconds(2)));
        // It would take 26 s to arrive.
        byte[] frame = FakeDaemon.ids(peer.read().id, Collections.nCopies(20, new Run(1, 1)).toArray(new Run[0]));
        long began = System.nanoTime();
        try {
            for (int i = 0; i < frame.length - 1 && !late.isDone(); i++) {
                peer.send(new byte[] {frame[i]});
                Thread.sleep(i < 5 ? 1 : 100);
            }
        } catch (IOException closed) {
            // The client has given up the connection.
        }
        failure(LeafdException.DeadlineExceeded.class, late);
        assertTrue(System.nanoTime() - began < 10_000_000_000L);
    }

    @Test
    public void anInterruptedCallerLeavesHalfAnAnswerToTheThread() throws Exception {
        for (int i = 0; i < 20; i++) {
            FutureTask<Long> call = new FutureTask<>(() -> client.next("t"));
            Thread caller = new Thread(call);
            caller.start();
            byte[] frame = FakeDaemon.ids(peer.read().id, 666, 1);
            peer.send(Arrays.copyOf(frame, i));
            caller.interrupt();
            failure(InterruptedException.class, call);
            FutureTask<Long> next = call(client);
            Asked asked = peer.read();
            peer.send(Arrays.copyOfRange(frame, i, frame.length), FakeDaemon.ids(asked.id, nextId, 1));
            assertEquals(nextId++, (long) get(next));
            freeTheLead();
        }
    }

    @Test
    public void anInterruptBeforeTheCallEndsIt() throws Exception {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> client.nextMany("t", 2));
        assertFalse(Thread.currentThread().isInterrupted());
        FutureTask<Long> next = call(client);
        Asked asked = peer.read();
        // A slow machine may have given up the call before it was sent.
        if (asked.count == 2) {
            peer.send(FakeDaemon.ids(asked.id, 666, 2));
            asked = peer.read();
        }
        peer.send(FakeDaemon.ids(asked.id, nextId, 1));
        assertEquals(nextId++, (long) get(next));
    }

    @Test
    public void anAsynchronousCallIsNotDeliveredInTheThreadOfAnotherCaller() throws Exception {
        FutureTask<Long> blocking = call(client);
        Asked first = peer.read();
        CompletableFuture<String> deliveredBy =
                client.nextAsync("t").thenApply(id -> Thread.currentThread().getName());
        Asked second = peer.read();
        peer.send(FakeDaemon.ids(second.id, 2, 1), FakeDaemon.ids(first.id, 1, 1));
        assertEquals(1, (long) get(blocking));
        String name = deliveredBy.get(30, TimeUnit.SECONDS);
        // This thread itself, if it came too late to depend on the result.
        boolean wasDone = name.equals(Thread.currentThread().getName());
        assertTrue(name, wasDone || name.startsWith("leafd-client-"));
    }

    @Test
    public void nothingIsSentAfterAGoodbyeThatCameBetweenTwoCalls() throws Exception {
        peer.send(FakeDaemon.goodbye());
        FutureTask<Long> call = call(client);
        assertTrue("something was sent after Goodbye", peer.ends());
        peer = daemon.greet();
        answer(call);
    }

    @Test
    public void aCallIsRepeatedIfItsConnectionEnds() throws Exception {
        for (int i = 0; i < 3; i++) {
            // Between two calls, before the answer, and within it.
            FutureTask<Long> call = null;
            if (i > 0) {
                call = call(client);
                byte[] frame = FakeDaemon.ids(peer.read().id, 666, 1);
                peer.send(Arrays.copyOf(frame, i == 1 ? 0 : 10));
            }
            peer.close();
            call = call != null ? call : call(client);
            peer = daemon.greet();
            answer(call);
            freeTheLead();
        }
    }

    @Test
    public void aBrokenProtocolFailsTheCallAndTheNextOneWorks() throws Exception {
        FutureTask<Long> call = call(client);
        peer.send(FakeDaemon.ids(peer.read().id + 1, 1, 1));
        failure(LeafdException.ProtocolViolation.class, call);
        assertTrue(peer.ends());
        FutureTask<Long> next = call(client);
        peer = daemon.greet();
        answer(next);
    }

    @Test
    public void closingFailsTheCallOfACallerThatLeads() throws Exception {
        FutureTask<Long> call = call(client);
        peer.read();
        client.close();
        failure(LeafdException.Closed.class, call);
        assertTrue(peer.ends());
        assertThrows(LeafdException.Closed.class, () -> client.next("t"));
    }

    @Test
    public void closingWhileTheLeadIsFreeEndsTheConnection() throws Exception {
        client.close();
        assertTrue(peer.ends());
        assertThrows(LeafdException.Closed.class, () -> client.next("t"));
    }

    @Test
    public void anUnusedConnectionThatTheDaemonClosesIsClosedHereToo() throws Exception {
        peer.endOutput();
        assertTrue(peer.ends());
    }

    @Test
    public void manyCallersThatComeAndGoGetTheirOwnAnswers() throws Exception {
        AtomicLong issued = new AtomicLong(1);
        Thread daemonSide = new Thread(() -> {
            try {
                while (true) {
                    peer.send(FakeDaemon.ids(peer.read().id, issued.getAndIncrement(), 1));
                }
            } catch (IOException over) {
                // The test has ended.
            }
        });
        daemonSide.start();
        List<FutureTask<List<Long>>> callers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int number = i;
            callers.add(new FutureTask<>(() -> {
                List<Long> ids = new ArrayList<>();
                for (int call = 0; call < 1000; call++) {
                    ids.add(call % 50 == 0 ? client.nextAsync("t").get() : client.next("t"));
                    // So that every number of callers at a time occurs, one included.
                    if (call % (20 * number + 100) == 0) {
                        Thread.sleep(3 * number);
                    }
                }
                return ids;
            }));
        }
        callers.forEach(caller -> new Thread(caller).start());
        Set<Long> all = new HashSet<>();
        for (FutureTask<List<Long>> caller : callers) {
            List<Long> ids = get(caller);
            for (int i = 0; i < ids.size(); i++) {
                assertTrue(all.add(ids.get(i)));
                assertTrue(i == 0 || ids.get(i) > ids.get(i - 1));
            }
        }
        assertEquals(4000, all.size());
        client.close();
        daemonSide.join();
    }

    // When a caller counts as alone.

    @Test
    public void callsAloneAndSoonAfterEachOtherMakeALoneCaller() {
        long soon = LoneCaller.SOON;
        for (int spoiled = -1; spoiled < LoneCaller.CALLS; spoiled++) {
            LoneCaller caller = new LoneCaller();
            caller.called(false, 0);
            for (int call = 0; call < LoneCaller.CALLS; call++) {
                assertFalse(caller.isLikely());
                caller.called(call != spoiled, (call + 1) * soon);
            }
            assertEquals(spoiled < 0, caller.isLikely());
            caller.called(true, (LoneCaller.CALLS + 1) * soon + 1);
            assertFalse(caller.isLikely());
        }
    }

    /** Answers every call, also on later connections. */
    private void answerAll() {
        Thread answering = new Thread(() -> {
            while (true) {
                try {
                    peer.send(FakeDaemon.ids(peer.read().id, nextId++, 1));
                } catch (Exception ended) {
                    try {
                        peer = daemon.greet();
                    } catch (Exception over) {
                        return;
                    }
                }
            }
        });
        answering.setDaemon(true);
        answering.start();
    }

    private void next() {
        try {
            client.next("t");
        } catch (InterruptedException nobodyDoes) {
            throw new AssertionError(nobodyDoes);
        }
    }

    /** Calls in the deepest frame in which that succeeds. Returns whether it has. */
    private boolean dive() {
        boolean done = false;
        try {
            done = dive();
        } catch (StackOverflowError full) {
            // Here it may work.
        }
        if (!done) {
            next();
        }
        return true;
    }

    @Test
    public void aLeaderWhoseStackIsFullStopsNobody() throws Exception {
        answerAll();
        // A caller that leaves costs the others a second, and one dive may leave several times.
        long enough = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        for (int round = 0; round < 12 && System.nanoTime() < enough; round++) {
            Thread diver = new Thread(null, () -> {
                for (int i = 0; i < LoneCaller.CALLS + 2; i++) {
                    next();
                }
                try {
                    dive();
                } catch (StackOverflowError | LeafdException full) {
                    // It was too deep. Others matter here.
                }
            }, "diver", 400_000);
            diver.start();
            diver.join();
            FutureTask<Long> other = call(client);
            assertTrue("round " + round, get(other) > 0);
        }
    }
}
