package leafd.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import leafd.client.FakeDaemon.Asked;
import leafd.client.FakeDaemon.Peer;
import leafd.client.wire.Run;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

public class PoolTest {
    @Rule public final Timeout patience = Timeout.seconds(60);

    private FakeDaemon daemon;

    @Before
    public void start() throws IOException {
        daemon = new FakeDaemon();
    }

    @After
    public void stop() throws IOException {
        daemon.close();
    }

    private LeafdPool.Builder pool() {
        return LeafdPool.tag("t").options(daemon.options());
    }

    private static CompletableFuture<Long> next(LeafdPool pool) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return pool.next();
            } catch (InterruptedException interrupted) {
                throw new AssertionError(interrupted);
            }
        });
    }

    /** Issues 1, 2, 3 … to every connection until the daemon is closed. */
    private AtomicLong serve(int maxCount) {
        AtomicLong issued = new AtomicLong(1);
        Thread server = new Thread(() -> {
            try {
                while (true) {
                    Peer peer = daemon.greet(64, maxCount);
                    Thread connection = new Thread(() -> {
                        try {
                            while (true) {
                                Asked asked = peer.read();
                                peer.send(FakeDaemon.ids(asked.id, issued.getAndAdd(asked.count), asked.count));
                            }
                        } catch (IOException over) {
                            // The client has ended.
                        }
                    });
                    connection.setDaemon(true);
                    connection.start();
                }
            } catch (IOException over) {
                // The test has ended.
            }
        });
        server.setDaemon(true);
        server.start();
        return issued;
    }

    @Test
    public void theFirstChunkIsTheSmallestAndTheNextIsLeasedAtHalf() throws Exception {
        try (LeafdPool pool = pool().minChunk(10).build()) {
            assertFalse(pool.tryNext().isPresent());
            Peer peer = daemon.greet();
            Asked asked = peer.read();
            assertEquals(10, asked.count);
            peer.send(FakeDaemon.ids(asked.id, 100, 10));
            CompletableFuture<Asked> second = CompletableFuture.supplyAsync(() -> {
                try {
                    return peer.read();
                } catch (IOException failure) {
                    throw new AssertionError(failure);
                }
            });
            for (int i = 0; i < 4; i++) {
                assertEquals(100 + i, pool.next());
            }
            Thread.sleep(30);
            assertFalse("leased before half was used", second.isDone());
            assertEquals(104, pool.next());
            assertEquals(105, pool.next());
            second.get();
            assertEquals(4, pool.stats().held());
            assertEquals(6, pool.stats().issued());
        }
    }

    @Test
    public void largeChunksAreGatheredFromRequestsWithinTheDaemonsLimit() throws Exception {
        try (LeafdPool pool = pool().minChunk(1000).build()) {
            CompletableFuture<Long> id = next(pool);
            Peer peer = daemon.greet(64, 400);
            int[] counts = new int[3];
            for (int i = 0; i < 3; i++) {
                Asked asked = peer.read();
                counts[i] = asked.count;
                peer.send(FakeDaemon.ids(asked.id, 1 + 400 * i, asked.count));
            }
            assertEquals(400, counts[0]);
            assertEquals(400, counts[1]);
            assertEquals(200, counts[2]);
            assertEquals(1L, (long) id.get());
            while (pool.stats().refills() == 0) {
                Thread.sleep(1);
            }
            assertEquals(1000, pool.stats().leased());
        }
    }

    @Test
    public void idsRiseInEveryThreadAndNoneComesTwice() throws Exception {
        AtomicLong leased = serve(1000);
        int threads = 4;
        int each = 200_000;
        BitSet seen = new BitSet();
        AtomicLong highest = new AtomicLong();
        try (LeafdPool pool = pool().build()) {
            List<CompletableFuture<long[]>> all = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                boolean local = t == 0;
                all.add(CompletableFuture.supplyAsync(() -> {
                    long[] ids = new long[each];
                    try (LeafdPool.Local handle = pool.local()) {
                        for (int i = 0; i < each; i++) {
                            long returned = highest.get();
                            ids[i] = local ? handle.next() : pool.next();
                            if (!local) {
                                assertTrue("lower than one that was returned", ids[i] > returned);
                                highest.accumulateAndGet(ids[i], Math::max);
                            }
                        }
                    } catch (InterruptedException interrupted) {
                        throw new AssertionError(interrupted);
                    }
                    return ids;
                }));
            }
            for (CompletableFuture<long[]> ids : all) {
                for (long id : ids.get()) {
                    assertFalse("twice: " + id, seen.get((int) id));
                    seen.set((int) id);
                }
            }
            // The last lease may still be on its way.
            while (pool.stats().leased() != leased.get() - 1) {
                Thread.sleep(1);
            }
            PoolStats stats = pool.stats();
            assertEquals(stats.leased(), stats.issued() + stats.held() + stats.lent() + stats.lost());
            assertEquals(threads * each, stats.issued());
        }
    }

    @Test
    public void manyIdsAreGatheredInOrder() throws Exception {
        serve(100);
        try (LeafdPool pool = pool().minChunk(7).build()) {
            Ids ids = pool.nextMany(1000);
            assertEquals(1000, ids.count());
            assertEquals(List.of(new Run(1, 1000)), ids.runs());
            assertThrows(IllegalArgumentException.class, () -> pool.nextMany(0));
        }
    }

    @Test
    public void snowflakesThatAreTooOldAreDropped() throws Exception {
        AtomicLong issued = serve(1000);
        LeafdPool.Builder builder = LeafdPool.snowflakes().options(daemon.options()).maxAge(Duration.ofMillis(50));
        try (LeafdPool pool = builder.build(); LeafdPool.Local local = pool.local()) {
            pool.next();
            local.next();
            long old = issued.get();
            Thread.sleep(80);
            assertTrue(pool.next() >= old);
            assertTrue(local.next() >= old);
            assertTrue(pool.nextMany(10).first() >= old);
            assertTrue("" + pool.stats(), pool.stats().lost() > 0);
        }
    }

    @Test
    public void anOutageLeavesWhatThePoolHoldsAndThenTheErrorOfTheLastAttempt() throws Exception {
        try (LeafdPool pool = pool().minChunk(10).build()) {
            CompletableFuture<Long> first = next(pool);
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.ids(peer.read().id, 1, 10));
            assertEquals(1L, (long) first.get());
            daemon.stopListening();
            peer.close();
            for (int i = 2; i <= 10; i++) {
                assertEquals(i, pool.next());
            }
            // On a slow machine, the first attempt may take longer than the call below.
            while (pool.stats().failures() == 0) {
                Thread.sleep(1);
            }
            long began = System.nanoTime();
            assertThrows(LeafdException.Unavailable.class, () -> pool.next(Duration.ofMillis(200)));
            long took = System.nanoTime() - began;
            assertTrue("" + took, took >= 200_000_000L && took < 10_000_000_000L);
            daemon.listen();
            serve(1000).set(500);
            assertEquals(500, pool.next());
        }
    }

    @Test
    public void anErrorThatDoesNotPassIsGivenAtOnce() throws Exception {
        try (LeafdPool pool = pool().build()) {
            CompletableFuture<Long> id = next(pool);
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.error(peer.read().id, 202));
            Throwable error = assertThrows(java.util.concurrent.ExecutionException.class, id::get).getCause();
            assertEquals(202, ((LeafdException.Refused) error).number());
        }
    }

    @Test
    public void aLowerLimitOfTheDaemonIsKept() throws Exception {
        try (LeafdPool pool = pool().minChunk(1000).build()) {
            CompletableFuture<Long> id = next(pool);
            Peer peer = daemon.greet();
            Asked asked = peer.read();
            assertEquals(1000, asked.count);
            peer.send(FakeDaemon.error(asked.id, 200, 0, 30, "quota"));
            asked = peer.read();
            assertEquals(30, asked.count);
            peer.send(FakeDaemon.ids(asked.id, 1, 30));
            assertEquals(1L, (long) id.get());
        }
    }

    @Test
    public void anInterruptedCallerTakesNothing() throws Exception {
        try (LeafdPool pool = pool().build()) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, pool::next);
            serve(100);
            assertEquals(1, pool.next());
        }
    }

    @Test
    public void closingLosesWhatIsHeldAndFailsEveryCall() throws Exception {
        serve(100);
        LeafdPool pool = pool().build();
        pool.next();
        LeafdPool.Local givenBack = pool.local();
        givenBack.next();
        LeafdPool.Local local = pool.local();
        local.next();
        givenBack.close();
        pool.close();
        assertThrows(LeafdException.Closed.class, pool::next);
        assertThrows(LeafdException.Closed.class, pool::tryNext);
        assertThrows(LeafdException.Closed.class, pool::local);
        local.close();
        assertThrows(LeafdException.Closed.class, local::next);
        assertEquals(0, pool.stats().held());
        assertEquals(0, pool.stats().lent());
    }

    @Test
    public void aLocalHandleBelongsToItsThread() throws Exception {
        serve(100);
        try (LeafdPool pool = pool().build(); LeafdPool.Local local = pool.local()) {
            local.next();
            CompletableFuture<Void> other = CompletableFuture.runAsync(() -> {
                assertThrows(IllegalStateException.class, local::next);
                assertThrows(IllegalStateException.class, local::tryNext);
                assertThrows(IllegalStateException.class, local::close);
            });
            other.get();
        }
    }

    @Test
    public void aLocalHandleUsesUpTheRangeThatEndsAtTheHighestIdBeforeItTakesAnother() throws Exception {
        long first = Long.MAX_VALUE - 999;
        try (LeafdPool pool = pool().minChunk(1000).build(); LeafdPool.Local local = pool.local()) {
            assertFalse(pool.tryNext().isPresent());
            Peer peer = daemon.greet();
            peer.send(FakeDaemon.ids(peer.read().id, first, 1000));
            try (LeafdPool.Local other = pool.local()) {
                assertEquals(first, other.next());
                // A handle gets a batch of 31 of this chunk, so 20 are left.
                pool.nextMany(949);
                assertEquals(Long.MAX_VALUE - 19, local.next());
            }
            for (long id = Long.MAX_VALUE - 18; id > 0; id++) {
                assertEquals(id, local.next());
            }
            // What the other one has given back.
            assertEquals(first + 1, local.next());
        }
    }

    @Test
    public void whatALocalHandleGivesBackIsUsedByTheNext() throws Exception {
        serve(1000);
        try (LeafdPool pool = pool().minChunk(1000).build()) {
            long first;
            try (LeafdPool.Local local = pool.local()) {
                first = local.next();
            }
            try (LeafdPool.Local local = pool.local()) {
                assertEquals(first + 1, local.next());
            }
        }
    }
}
