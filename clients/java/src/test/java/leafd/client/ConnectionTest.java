package leafd.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import leafd.client.FakeDaemon.Asked;
import leafd.client.FakeDaemon.Peer;
import leafd.client.wire.ErrorCode;
import leafd.client.wire.Run;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

public class ConnectionTest {
    @Rule public final Timeout patience = Timeout.seconds(60);

    private FakeDaemon daemon;
    private LeafdClient client;

    @Before
    public void start() throws IOException {
        daemon = new FakeDaemon();
        client = LeafdClient.create(daemon.options());
    }

    @After
    public void stop() throws IOException {
        client.close();
        daemon.close();
    }

    private static <T> T get(CompletableFuture<T> result) throws Exception {
        return result.get(30, TimeUnit.SECONDS);
    }

    private static <E extends LeafdException> E failure(Class<E> kind, CompletableFuture<?> result) {
        ExecutionException failed = assertThrows(ExecutionException.class, () -> get(result));
        assertSame(failed.getCause().toString(), kind, failed.getCause().getClass());
        return kind.cast(failed.getCause());
    }

    @Test
    public void aCallGetsItsAnswerAndTheTimeoutIsSentALittleShorter() throws Exception {
        long began = System.nanoTime();
        CompletableFuture<Long> id = client.withTimeout(Duration.ofSeconds(30)).nextAsync("größe");
        Peer peer = daemon.greet();
        Asked asked = peer.read();
        long tookMs = 1 + (System.nanoTime() - began) / 1_000_000;
        assertEquals(1, asked.call);
        assertEquals(1, asked.count);
        assertTrue("" + asked.timeoutMs, asked.timeoutMs >= 29_949 - tookMs && asked.timeoutMs <= 29_950);
        peer.send(FakeDaemon.ids(asked.id, 7, 1));
        assertEquals(7L, (long) get(id));
    }

    @Test
    public void framesMayArriveByteByByteOrManyInOneWrite() throws Exception {
        List<CompletableFuture<Ids>> results = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            results.add(client.nextManyAsync("t", 2));
        }
        Peer peer = daemon.greet();
        List<byte[]> frames = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            Asked asked = peer.read();
            frames.add(FakeDaemon.ids(asked.id, new Run(100 + 10 * i, 1), new Run(103 + 10 * i, 1)));
        }
        for (byte b : frames.get(0)) {
            peer.send(new byte[] {b});
            Thread.sleep(1);
        }
        ByteArrayOutputStream rest = new ByteArrayOutputStream();
        for (byte[] frame : frames.subList(1, 20)) {
            rest.write(frame);
        }
        peer.send(rest.toByteArray());
        for (int i = 0; i < 20; i++) {
            assertEquals("[" + (100 + 10 * i) + ", " + (103 + 10 * i) + "]", get(results.get(i)).toString());
        }
    }

    @Test
    public void theLargestAnswerFitsAndALargerOneIsRefusedBeforeItArrives() throws Exception {
        int runs = 21_843;
        CompletableFuture<Ids> ids = client.snowflakesAsync(runs);
        Peer peer = daemon.greet();
        Run[] all = new Run[runs];
        for (int i = 0; i < runs; i++) {
            all[i] = new Run(2 * i, 1);
        }
        byte[] frame = FakeDaemon.ids(peer.read().id, all);
        assertTrue(frame.length - 4 > 256 * 1024 - 12 && frame.length - 4 <= 256 * 1024);
        peer.send(frame);
        assertEquals(runs, get(ids).runs().size());

        CompletableFuture<Long> next = client.nextAsync("t");
        peer.read();
        peer.send(ByteBuffer.allocate(4).putInt(256 * 1024 + 1).array());
        failure(LeafdException.ProtocolViolation.class, next);
        assertTrue(peer.ends());
    }

    @Test
    public void answersInAnyOrderReachTheirCallers() throws Exception {
        CompletableFuture<Long> one = client.nextAsync("t");
        Peer peer = daemon.greet();
        Asked first = peer.read();
        CompletableFuture<Instant> two = client.timeAsync();
        Asked second = peer.read();
        peer.send(FakeDaemon.time(second.id, 1234), FakeDaemon.ids(first.id, 5, 1));
        assertEquals(5L, (long) get(one));
        assertEquals(Instant.ofEpochMilli(1234), get(two));
    }

    @Test
    public void callsAboveTheDaemonsLimitAreQueuedInOrder() throws Exception {
        List<CompletableFuture<Long>> results = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            results.add(client.nextAsync("t"));
        }
        Peer peer = daemon.greet(2, 100);
        Asked one = peer.read();
        Asked two = peer.read();
        CompletableFuture<Asked> third = CompletableFuture.supplyAsync(() -> read(peer));
        Thread.sleep(50);
        assertFalse("a third request was sent", third.isDone());
        peer.send(FakeDaemon.ids(two.id, 2, 1));
        Asked three = third.get();
        peer.send(FakeDaemon.ids(one.id, 1, 1));
        Asked four = peer.read();
        peer.send(FakeDaemon.ids(three.id, 3, 1), FakeDaemon.ids(four.id, 4, 1));
        peer.send(FakeDaemon.ids(peer.read().id, 5, 1), FakeDaemon.ids(peer.read().id, 6, 1));
        for (int i = 0; i < 6; i++) {
            assertEquals(i + 1L, (long) get(results.get(i)));
        }
    }

    private static Asked read(Peer peer) {
        try {
            return peer.read();
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    public void aLateAnswerIsDroppedAndItsRequestIdIsNotUsedAgain() throws Exception {
        CompletableFuture<Long> open = client.nextAsync("open");
        Peer peer = daemon.greet();
        Asked openAsked = peer.read();
        // Long enough for a slow machine to deliver the other answer first.
        CompletableFuture<Long> slow = client.withTimeout(Duration.ofSeconds(2)).nextAsync("slow");
        Asked slowAsked = peer.read();
        // The daemon is alive, so the connection stays.
        peer.send(FakeDaemon.ids(openAsked.id, 1, 1));
        get(open);
        failure(LeafdException.DeadlineExceeded.class, slow);
        CompletableFuture<Long> next = client.nextAsync("next");
        Asked nextAsked = peer.read();
        assertTrue(nextAsked.id > slowAsked.id);
        peer.send(FakeDaemon.ids(slowAsked.id, 666, 1), FakeDaemon.ids(nextAsked.id, 2, 1));
        assertEquals(2L, (long) get(next));
    }

    @Test
    public void aCancelledCallIsAbandonedAndItsAnswerIsDropped() throws Exception {
        CompletableFuture<Long> cancelled = client.nextAsync("t");
        Peer peer = daemon.greet();
        Asked asked = peer.read();
        assertTrue(cancelled.cancel(true));
        CompletableFuture<Long> next = client.nextAsync("t");
        Asked nextAsked = peer.read();
        peer.send(FakeDaemon.ids(asked.id, 1, 1), FakeDaemon.ids(nextAsked.id, 2, 1));
        assertEquals(2L, (long) get(next));
    }

    @Test
    public void anInterruptedCallerLeavesTheConnectionAsItIs() throws Exception {
        CompletableFuture<Long> other = client.nextAsync("other");
        Peer peer = daemon.greet();
        Asked otherAsked = peer.read();
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread caller = new Thread(() -> {
            try {
                client.next("t");
            } catch (Throwable failure) {
                thrown.set(failure);
            }
        });
        caller.start();
        Asked asked = peer.read();
        caller.interrupt();
        caller.join();
        assertTrue("" + thrown.get(), thrown.get() instanceof InterruptedException);
        peer.send(FakeDaemon.ids(asked.id, 1, 1), FakeDaemon.ids(otherAsked.id, 2, 1));
        assertEquals(2L, (long) get(other));
    }

    @Test
    public void abandonedCallsThatFillTheLimitReplaceTheConnection() throws Exception {
        CompletableFuture<Long> one = client.nextAsync("t");
        CompletableFuture<Long> two = client.nextAsync("t");
        try (Peer stuck = daemon.greet(2, 100)) {
            stuck.read();
            stuck.read();
            one.cancel(true);
            two.cancel(true);
            assertTrue(stuck.ends());
        }
        CompletableFuture<Long> next = client.nextAsync("t");
        Peer peer = daemon.greet();
        peer.send(FakeDaemon.ids(peer.read().id, 3, 1));
        assertEquals(3L, (long) get(next));
    }

    @Test
    public void impatientCallsDoNotCostAPatientOneItsAnswer() throws Exception {
        LeafdClient impatient = client.withTimeout(Duration.ofMillis(50));
        long began = System.nanoTime();
        CompletableFuture<Long> patient = client.nextAsync("t");
        Peer peer = daemon.greet();
        Asked asked = peer.read();
        for (int i = 0; i < 5; i++) {
            assertThrows(LeafdException.class, () -> impatient.next("t"));
        }
        long tookMs = (System.nanoTime() - began) / 1_000_000;
        // After a second of silence the connection is replaced rightly; a slow machine takes that long.
        assumeTrue(tookMs < 1000);
        Thread.sleep(Math.max(0, 500 - tookMs));
        peer.send(FakeDaemon.ids(asked.id, 7, 1));
        assertEquals(7L, (long) get(patient));
    }

    @Test
    public void aDaemonThatHangsIsLeftAlthoughOthersWait() throws Exception {
        LeafdClient impatient = client.withTimeout(Duration.ofMillis(50));
        CompletableFuture<Long> first = client.nextAsync("t");
        Peer stuck = daemon.greet();
        stuck.send(FakeDaemon.ids(stuck.read().id, 1, 1));
        get(first);
        // A daemon that was asked nothing is not silent.
        Thread.sleep(300);
        long began = System.nanoTime();
        CompletableFuture<Long> patient = client.withTimeout(Duration.ofSeconds(60)).nextAsync("t");
        stuck.read();
        FutureTask<Peer> accepted = new FutureTask<>(daemon::accept);
        new Thread(accepted).start();
        while (!accepted.isDone()) {
            assertThrows(LeafdException.class, () -> impatient.next("t"));
        }
        assertTrue(System.nanoTime() - began >= 1_000_000_000L);
        assertThrows(IOException.class, () -> {
            while (true) {
                stuck.read();
            }
        });
        Peer peer = accepted.get();
        peer.send(FakeDaemon.hello(peer.read().id, 1, 100, 100));
        peer.send(FakeDaemon.ids(peer.read().id, 8, 1));
        assertEquals(8L, (long) get(patient));
    }

    @Test
    public void anAnswerToARequestThatWasNeverSentIsAProtocolError() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        Peer peer = daemon.greet();
        long foreign = peer.read().id + 100;
        peer.send(FakeDaemon.ids(foreign, 1, 1));
        failure(LeafdException.ProtocolViolation.class, id);
        assertTrue(peer.ends());
        // The next call makes a new connection.
        CompletableFuture<Long> next = client.nextAsync("t");
        Peer again = daemon.greet();
        again.send(FakeDaemon.ids(again.read().id, 2, 1));
        assertEquals(2L, (long) get(next));
    }

    @Test
    public void aSecondAnswerIsAProtocolError() throws Exception {
        CompletableFuture<Long> one = client.nextAsync("t");
        CompletableFuture<Long> two = client.nextAsync("t");
        Peer peer = daemon.greet();
        long id = peer.read().id;
        peer.send(FakeDaemon.ids(id, 1, 1), FakeDaemon.ids(id, 2, 1));
        assertEquals(1L, (long) get(one));
        failure(LeafdException.ProtocolViolation.class, two);
    }

    @Test
    public void anAnswerThatIsNoValidAnswerIsAProtocolError() throws Exception {
        interface Bad {
            byte[] to(long id);
        }
        List<Bad> all = List.of(
                FakeDaemon::unknownReply,
                id -> FakeDaemon.time(id, 1),
                id -> FakeDaemon.ids(id, 1, 2),
                id -> FakeDaemon.ids(id, 1, 4),
                id -> FakeDaemon.ids(id, 1, 0),
                id -> FakeDaemon.ids(id, new Run(1, 3), new Run(9, 0)),
                id -> FakeDaemon.ids(id, Long.MAX_VALUE - 1, 3),
                id -> FakeDaemon.ids(id, -1, 3),
                id -> FakeDaemon.ids(id, new Run(1, 2), new Run(2, 1)),
                id -> FakeDaemon.ids(id, new Run(5, 1), new Run(9, 1), new Run(5, 1)),
                id -> new byte[] {0, 0, 0, 3, 1, 2, 3},
                id -> new byte[] {0, 0, 0, 0},
                id -> FakeDaemon.time(0, 1));
        for (Bad bad : all) {
            CompletableFuture<Ids> ids = client.nextManyAsync("t", 3);
            try (Peer peer = daemon.greet()) {
                peer.send(bad.to(peer.read().id));
                failure(LeafdException.ProtocolViolation.class, ids);
                assertTrue(peer.ends());
            }
        }
    }

    @Test
    public void anErrorOfTheDaemonIsPassedOnWithItsNumber() throws Exception {
        for (int code : new int[] {202, 304, 306, 399, 4242}) {
            CompletableFuture<Long> id = client.nextAsync("t");
            try (Peer peer = daemon.greet()) {
                peer.send(FakeDaemon.error(peer.read().id, code, 20, -1, "why"));
                LeafdException.Refused refused = failure(LeafdException.Refused.class, id);
                assertEquals(code, refused.number());
                assertEquals(ErrorCode.of(code), refused.code());
                assertEquals("why", refused.reason());
                assertEquals(Duration.ofMillis(20), refused.retryAfter().get());
                assertEquals(-1, refused.detail());
                assertEquals(code == 304 || code == 399, refused.isTemporary());
            }
            // So that the next connection is this loop's.
            CompletableFuture<Instant> time = client.timeAsync();
            try (Peer peer = daemon.greet()) {
                peer.send(FakeDaemon.time(peer.read().id, 1));
                get(time);
            }
        }
    }

    @Test
    public void aRefusedConnectionFailsAllCallsAtOnceIfAnotherAttemptCannotHelp() throws Exception {
        for (int code : new int[] {206, 101, 100, 999}) {
            CompletableFuture<Long> one = client.nextAsync("t");
            CompletableFuture<Long> two = client.nextAsync("t");
            try (Peer peer = daemon.accept()) {
                // Before Hello is read.
                peer.send(FakeDaemon.error(0, code));
            }
            assertEquals(code, failure(LeafdException.Refused.class, one).number());
            assertEquals(code, failure(LeafdException.Refused.class, two).number());
        }
    }

    @Test
    public void aFullDaemonIsTriedAgainNotBeforeItsPauseAndThenReported() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        long began = System.nanoTime();
        try (Peer peer = daemon.accept()) {
            peer.send(FakeDaemon.error(0, 300, 200, 16, "full"));
        }
        Peer peer = daemon.greet();
        assertTrue(System.nanoTime() - began >= 200_000_000L);
        peer.send(FakeDaemon.ids(peer.read().id, 1, 1));
        assertEquals(1L, (long) get(id));
        peer.close();

        // Long enough for a slow machine to be refused once.
        CompletableFuture<Long> hopeless = client.withTimeout(Duration.ofSeconds(1)).nextAsync("t");
        CompletableFuture<Void> full = CompletableFuture.runAsync(() -> {
            try {
                while (!hopeless.isDone()) {
                    try (Peer next = daemon.accept()) {
                        next.send(FakeDaemon.error(0, 300));
                    }
                }
            } catch (IOException over) {
                // The test has ended.
            }
        });
        assertEquals(300, failure(LeafdException.Refused.class, hopeless).number());
        client.timeAsync();
        full.get();
    }

    @Test
    public void anErrorAboutTheConnectionFailsTheCallsInFlight() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        Peer peer = daemon.greet();
        peer.read();
        peer.send(FakeDaemon.error(0, 206));
        assertEquals(206, failure(LeafdException.Refused.class, id).number());
        assertTrue(peer.ends());
    }

    @Test
    public void afterGoodbyeAnswersThatArriveAreUsedAndTheOthersRepeated() throws Exception {
        CompletableFuture<Long> one = client.nextAsync("t");
        CompletableFuture<Long> two = client.nextAsync("t");
        CompletableFuture<Long> three = client.nextAsync("t");
        Peer peer = daemon.greet();
        peer.read();
        Asked second = peer.read();
        Asked third = peer.read();
        peer.send(FakeDaemon.goodbye(), FakeDaemon.ids(second.id, 2, 1), FakeDaemon.error(third.id, 309));
        assertEquals(2L, (long) get(two));
        assertTrue("something was sent after Goodbye", peer.ends());
        Peer next = daemon.greet();
        next.send(FakeDaemon.ids(next.read().id, 11, 1), FakeDaemon.ids(next.read().id, 12, 1));
        assertEquals(23, get(one) + get(three));
    }

    @Test
    public void aCallIsRepeatedIfItsConnectionEnds() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        try (Peer peer = daemon.greet()) {
            peer.read();
        }
        try (Peer peer = daemon.greet()) {
            peer.read();
        }
        Peer peer = daemon.greet();
        peer.send(FakeDaemon.ids(peer.read().id, 4, 1));
        assertEquals(4L, (long) get(id));
    }

    @Test
    public void aRestartBetweenCallsIsNotNoticedByTheCaller() throws Exception {
        for (long i = 1; i < 4; i++) {
            CompletableFuture<Long> id = client.nextAsync("t");
            try (Peer peer = daemon.greet()) {
                peer.send(FakeDaemon.ids(peer.read().id, i, 1));
                assertEquals(i, (long) get(id));
            }
        }
    }

    @Test
    public void aDaemonThatIsNotThereYetIsWaitedFor() throws Exception {
        daemon.stopListening();
        CompletableFuture<Long> id = client.nextAsync("t");
        Thread.sleep(50);
        assertFalse(id.isDone());
        daemon.listen();
        Peer peer = daemon.greet();
        peer.send(FakeDaemon.ids(peer.read().id, 1, 1));
        assertEquals(1L, (long) get(id));
    }

    @Test
    public void aDaemonThatStaysAwayIsUnavailableAtTheDeadline() throws Exception {
        daemon.stopListening();
        long began = System.nanoTime();
        LeafdException.Unavailable error = assertThrows(
                LeafdException.Unavailable.class, () -> client.withTimeout(Duration.ofMillis(100)).next("t"));
        long took = System.nanoTime() - began;
        assertTrue("" + took, took >= 100_000_000L && took < 10_000_000_000L);
        assertTrue(error.getMessage(), error.getMessage().contains(daemon.socket.toString()));
        assertTrue(error.isTemporary());
    }

    @Test
    public void silenceEndsAtTheDeadlineWhateverTheDaemonHasSaidBefore() throws Exception {
        // Silence instead of Hello. Each call lasts long enough for a slow machine to connect or to send it.
        CompletableFuture<Long> unGreeted = client.withTimeout(Duration.ofSeconds(2)).nextAsync("t");
        Peer peer = daemon.accept();
        failure(LeafdException.Unavailable.class, unGreeted);
        // The handshake goes on, and another call profits from it.
        CompletableFuture<Long> next = client.withTimeout(Duration.ofSeconds(2)).nextAsync("t");
        peer.send(FakeDaemon.hello(peer.read().id, 1, 100, 100));
        Asked asked = peer.read();
        // A byte now and then instead of an answer, which would take 26 s to arrive.
        byte[] frame = FakeDaemon.ids(asked.id, Collections.nCopies(20, new Run(1, 1)).toArray(new Run[0]));
        long began = System.nanoTime();
        try {
            for (int i = 0; i < frame.length - 1 && !next.isDone(); i++) {
                peer.send(new byte[] {frame[i]});
                Thread.sleep(100);
            }
        } catch (IOException closed) {
            // The client has given up the connection.
        }
        failure(LeafdException.DeadlineExceeded.class, next);
        assertTrue(System.nanoTime() - began < 10_000_000_000L);
        // Nothing has arrived in full since the request, so the connection is replaced.
        assertTrue(peer.ends());
    }

    @Test
    public void aVersionThatWasNotOfferedIsAProtocolError() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        Peer peer = daemon.accept();
        peer.send(FakeDaemon.hello(peer.read().id, 2, 100, 100));
        failure(LeafdException.ProtocolViolation.class, id);
        assertTrue(peer.ends());
    }

    @Test
    public void closingFailsTheCallsThatWaitAndThoseThatCome() throws Exception {
        CompletableFuture<Long> id = client.nextAsync("t");
        Peer peer = daemon.greet();
        peer.read();
        client.close();
        failure(LeafdException.Closed.class, id);
        assertTrue(peer.ends());
        assertThrows(LeafdException.Closed.class, () -> client.next("t"));
        LeafdClient unused = LeafdClient.create(daemon.options());
        unused.close();
        assertThrows(LeafdException.Closed.class, () -> unused.next("t"));
    }

    @Test
    public void whatDependsOnAResultDoesNotHoldUpTheConnection() throws Exception {
        CompletableFuture<Long> never = new CompletableFuture<>();
        CompletableFuture<Void> slow = client.nextAsync("t").thenAccept(id -> never.join());
        Peer peer = daemon.greet();
        peer.send(FakeDaemon.ids(peer.read().id, 1, 1));
        CompletableFuture<Instant> other = client.timeAsync();
        peer.send(FakeDaemon.time(peer.read().id, 1));
        get(other);
        assertFalse(slow.isDone());
        never.complete(1L);
        get(slow);
    }

    @Test
    public void anExecutorThatRefusesStillLeavesTheCallerItsResult() throws Exception {
        LeafdOptions options = daemon.options().executor(task -> {
            throw new java.util.concurrent.RejectedExecutionException();
        });
        try (LeafdClient other = LeafdClient.create(options)) {
            CompletableFuture<Long> id = other.nextAsync("t");
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.ids(peer.read().id, 1, 1));
            assertEquals(1L, (long) get(id));
        }
    }

    @Test
    public void anExecutorWithoutMemoryForAThreadStillLeavesTheCallerItsResult() throws Exception {
        LeafdOptions options = daemon.options().executor(task -> {
            throw new OutOfMemoryError("unable to create native thread");
        });
        try (LeafdClient other = LeafdClient.create(options)) {
            CompletableFuture<Long> id = other.nextAsync("t");
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.ids(peer.read().id, 1, 1));
            assertEquals(1L, (long) get(id));
        }
    }

    @Test
    public void aBlockingCallInTheThreadOfTheConnectionIsRefusedAndTheConnectionLives() throws Exception {
        try (LeafdClient direct = LeafdClient.create(daemon.options().executor(Runnable::run))) {
            CompletableFuture<Long> nested = direct.nextAsync("t").thenApply(id -> {
                try {
                    return direct.next("t");
                } catch (InterruptedException interrupted) {
                    throw new AssertionError(interrupted);
                }
            });
            CompletableFuture<Long> chained = direct.nextAsync("t").thenCompose(id -> direct.nextAsync("t"));
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.ids(peer.read().id, 1, 1), FakeDaemon.ids(peer.read().id, 2, 1));
            ExecutionException failed = assertThrows(ExecutionException.class, () -> get(nested));
            assertSame(IllegalStateException.class, failed.getCause().getClass());
            peer.send(FakeDaemon.ids(peer.read().id, 3, 1));
            assertEquals(3L, (long) get(chained));
        }
    }

    @Test
    public void resultsArriveEvenIfTheCommonPoolHasNoThreads() throws Exception {
        CompletableFuture<Boolean> isDaemon = new CompletableFuture<>();
        LeafdOptions.defaultExecutor(0).execute(() -> isDaemon.complete(Thread.currentThread().isDaemon()));
        assertTrue(get(isDaemon));
        assertSame(ForkJoinPool.commonPool(), LeafdOptions.defaultExecutor(1));
    }

    @Test
    public void theThreadIsADaemonWithAName() throws Exception {
        client.withTimeout(Duration.ZERO).timeAsync();
        List<Thread> threads = Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("leafd-client-")).toList();
        assertFalse(threads.isEmpty());
        assertTrue(threads.stream().allMatch(Thread::isDaemon));
    }
}
