package leafd.client;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import leafd.client.wire.Run;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** What needs no daemon. */
public class PartsTest {
    private static final long MS = 1_000_000;

    @Rule public final TemporaryFolder folder = new TemporaryFolder();

    // Layout.

    @Test
    public void idsAreDecodedAsJavaLeafComposesThem() {
        long id = (1_600_000_000_000L - 1_288_834_974_657L) << 22 | 513 << 12 | 77;
        assertEquals(new Layout.Parts(1_600_000_000_000L, 513, OptionalLong.empty(), 77), Layout.LEAF.decode(id));
        assertEquals(OptionalLong.of(16), Layout.TWITTER.decode(id).datacenter());
        assertEquals(Instant.ofEpochMilli(1_600_000_000_000L), Layout.LEAF.decode(id).time());
        assertThrows(IllegalArgumentException.class, () -> Layout.LEAF.decode(-1));
    }

    @Test
    public void layoutsAreReadAsTheDaemonWritesThem() {
        assertEquals(Layout.LEAF, Layout.parse("leaf"));
        Map<String, Layout> presets = Map.of("leaf", Layout.LEAF, "twitter", Layout.TWITTER, "baidu", Layout.BAIDU,
                "js", Layout.JS, "sonyflake", Layout.SONYFLAKE, "discord", Layout.DISCORD);
        presets.forEach((name, layout) -> {
            assertEquals(layout, Layout.parse(name));
            assertEquals(layout, Layout.parse(layout.toString()));
        });
        assertEquals("37/8/8@1767225600000/10ms", Layout.JS.toString());
        assertEquals("39/s8/w16@1409529600000/10ms", Layout.SONYFLAKE.toString());
        assertEquals("41/5+5/12@1420070400000/1ms", Layout.DISCORD.toString());
        assertEquals(Layout.SONYFLAKE, Layout.parse("39/s8/w16@2014-09-01/10ms"));
        assertEquals("41/s12/w5+5@0/1ms", Layout.parse("41/s12/w5+5@0").toString());
        assertEquals("41/5+5/12@1288834974657/1ms", Layout.parse("twitter").toString());
        assertEquals(Layout.parse("28/22/13@2026-01-01/1000ms"), Layout.parse("baidu@1767225600000"));
        assertEquals(Layout.LEAF, Layout.parse("41/10/12@2010-11-04T01:42:54.657Z"));
        for (String wrong : List.of("", "leaf2", "leaf@", "baidu@x", "41/10/12", "41/10@0", "41/10/12@-1",
                "41/9+/12@0", "a/b/c@d", "41/10/13@0", "0/51/12@0", "41/22/0@0", "41/10/12@0/2ms",
                "leaf@2026-13-01", "leaf@1969-12-31", "39/s8/16@0", "39/8/w16@0", "39/w16/s8@0", "js@", "Js")) {
            assertThrows(wrong, IllegalArgumentException.class, () -> Layout.parse(wrong));
        }
    }

    @Test
    public void anIdOfSonyflakeHasTheMachineAtTheBottom() {
        long id = 12_345_678_901L << 24 | 200 << 16 | 40_001;
        long unixMs = 1_409_529_600_000L + 123_456_789_010L;
        assertEquals(new Layout.Parts(unixMs, 40_001, OptionalLong.empty(), 200), Layout.SONYFLAKE.decode(id));
    }

    @Test
    public void idsOfJsFitADoubleAndLongerOnesAreRefused() {
        OptionalLong last = Layout.JS.compose((1L << 37) - 1, 255, 255);
        assertEquals(OptionalLong.of((1L << 53) - 1), last);
        assertEquals(last.getAsLong(), (long) (double) last.getAsLong());
        assertThrows(IllegalArgumentException.class, () -> Layout.JS.decode(1L << 53));
    }

    @Test
    public void everyIdIsComposedOfThePartsThatItIsDecodedTo() {
        Random random = new Random();
        for (String written : List.of("leaf", "twitter", "baidu", "js", "sonyflake", "discord", "61/1/1@0",
                "1/61/1@0", "1/0/62@0", "41/s12/w5+5@2026-01-01/1000ms", "20/0/8@0")) {
            Layout layout = Layout.parse(written);
            int bits = layout.timeBits() + layout.workerBits() + layout.sequenceBits();
            for (int i = 0; i < 1000; i++) {
                long id = random.nextLong() >>> (64 - bits) >>> random.nextInt(bits);
                Layout.Parts parts = layout.decode(id);
                long units = (parts.unixMs() - layout.epochMs()) / layout.unitMs();
                assertEquals(written, OptionalLong.of(id), layout.compose(units, parts.worker(), parts.sequence()));
            }
        }
    }

    @Test
    public void noIdIsComposedOfAPartThatDoesNotFit() {
        for (Layout layout : List.of(Layout.LEAF, Layout.TWITTER, Layout.BAIDU, Layout.JS, Layout.SONYFLAKE)) {
            long units = (1L << layout.timeBits()) - 1;
            long worker = (1L << layout.workerBits()) - 1;
            long sequence = (1L << layout.sequenceBits()) - 1;
            assertTrue(layout.compose(units, worker, sequence).isPresent());
            assertEquals(OptionalLong.empty(), layout.compose(units + 1, worker, sequence));
            assertEquals(OptionalLong.empty(), layout.compose(units, worker + 1, sequence));
            assertEquals(OptionalLong.empty(), layout.compose(units, worker, sequence + 1));
            assertEquals(OptionalLong.empty(), layout.compose(-1, 0, 0));
            assertEquals(OptionalLong.empty(), layout.compose(0, -1, 0));
            assertEquals(OptionalLong.empty(), layout.compose(0, 0, -1));
        }
    }

    @Test
    public void aLayoutTellsItsFields() {
        Layout layout = Layout.parse("40/s8/w3+12@18446744073709551615/10ms");
        assertEquals(List.of(40, 15, 3, 8),
                List.of(layout.timeBits(), layout.workerBits(), layout.datacenterBits(), layout.sequenceBits()));
        assertEquals(-1, layout.epochMs());
        assertEquals(10, layout.unitMs());
        assertTrue(layout.sequenceAboveWorker() && !Layout.LEAF.sequenceAboveWorker());
    }

    @Test
    public void timesBeyondTheRangeAreCutToTheHighestNumber() {
        Layout wide = Layout.parse("61/1/1@18446744073709551615/1000ms");
        assertEquals(-1, wide.decode(Long.MAX_VALUE).unixMs());
        assertEquals(-1, wide.decode(1 << 2).unixMs());
    }

    // Arguments.

    @Test
    public void invalidArgumentsAreFoundBeforeSending() {
        for (String tag : List.of("", "a\nb", "a\u0085", "ä".repeat(129), "half \ud800 pair", "\udc00")) {
            assertThrows(tag, IllegalArgumentException.class, () -> CallSpec.segment(tag, 1));
            assertThrows(tag, IllegalArgumentException.class, () -> LeafdPool.tag(tag));
        }
        CallSpec.segment("🍃".repeat(128), 1);
        for (long count : new long[] {0, -1, 1L << 32}) {
            assertThrows(IllegalArgumentException.class, () -> CallSpec.snowflake(count));
        }
    }

    @Test
    public void optionsOutOfRangeAreMovedIntoItOrRefused() {
        LeafdOptions options = LeafdOptions.at(Path.of("/x")).timeout(Duration.ofDays(400));
        assertEquals(Duration.ofHours(24), options.timeout());
        options = options.backoff(Duration.ZERO, Duration.ZERO);
        assertEquals(Duration.ofMillis(1), options.backoffMin());
        assertEquals(Duration.ofMillis(1), options.backoffMax());
        LeafdOptions valid = options;
        assertThrows(IllegalArgumentException.class, () -> valid.timeout(Duration.ofMillis(-1)));
        for (String path : List.of("", "x".repeat(107))) {
            assertThrows(IllegalArgumentException.class, () -> LeafdOptions.at(Path.of(path)));
        }
        LeafdOptions.at(Path.of("x".repeat(106)));
    }

    @Test
    public void theDaemonsTimeoutIsALittleLessThanTheTimeLeft() {
        assertEquals(4950, PendingCall.daemonTimeoutMs(5_000 * MS));
        assertEquals(90, PendingCall.daemonTimeoutMs(100 * MS));
        assertEquals(1, PendingCall.daemonTimeoutMs(0));
        assertEquals(1, PendingCall.daemonTimeoutMs(-5 * MS));
    }

    // Ids.

    @Test
    public void idsKeepTheOrderOfIssue() {
        Ids ids = Ids.check(List.of(new Run(10, 2), new Run(3, 1), new Run(Long.MAX_VALUE - 1, 2)), 5);
        long[] expected = {10, 11, 3, Long.MAX_VALUE - 1, Long.MAX_VALUE};
        assertArrayEquals(expected, ids.toArray());
        int at = 0;
        for (long id : ids) {
            assertEquals(expected[at++], id);
        }
        assertEquals(5, at);
        assertEquals(10, ids.first());
    }

    // Backoff.

    @Test
    public void pausesDoubleUpToTheLimitAndJitterShortensThemByUpToHalf() {
        for (int divisor = 1; divisor <= 2; divisor++) {
            Backoff backoff = new Backoff(5 * MS, 500 * MS);
            assertEquals(0, backoff.pause(0));
            for (long expected : new long[] {5, 10, 20, 40, 80, 160, 320, 500, 500}) {
                backoff.lost(0, divisor - 1, 0);
                assertEquals(expected * MS / divisor, backoff.pause(0));
            }
        }
    }

    @Test
    public void onlyTheFirstAttemptAfterAnAnswerIsImmediate() {
        Backoff backoff = new Backoff(5 * MS, 500 * MS);
        backoff.lost(0, 0, 0);
        backoff.lost(0, 0, 0);
        backoff.answered();
        backoff.lost(0, 0, 0);
        assertEquals(0, backoff.pause(0));
        backoff.lost(0, 0, 0);
        assertEquals(5 * MS, backoff.pause(0));
        assertEquals(2 * MS, backoff.pause(3 * MS));
        backoff.lost(0, 1, 70 * MS);
        assertEquals("jitter does not shorten the daemon's pause", 70 * MS, backoff.pause(0));
    }

    // The search for the socket.

    @Test
    public void theVariableWinsUnlessItIsEmpty() throws Exception {
        assertEquals(Path.of("/a/b.sock"), search(7, Map.of("LEAFD_SOCKET", "/a/b.sock")));
        assertEquals(Path.of("/a/b.sock"), search(0, Map.of("LEAFD_SOCKET", "/a/b.sock")));
        assertEquals(systemSocket(), search(7, Map.of("LEAFD_SOCKET", "")));
    }

    @Test
    public void aUsersOwnDaemonIsFoundButNotByRoot() throws Exception {
        Path runtime = folder.newFolder("runtime").toPath();
        Map<String, String> environment = Map.of("XDG_RUNTIME_DIR", runtime.toString());
        assertEquals(systemSocket(), search(7, environment));
        Files.createDirectory(runtime.resolve("leafd"));
        assertEquals(runtime.resolve("leafd/leafd.sock"), search(7, environment));
        assertEquals(systemSocket(), search(0, environment));
        assertEquals(systemSocket(), search(7, Map.of("XDG_RUNTIME_DIR", "relative")));
    }

    @Test
    public void aDirectoryInTmpCountsOnlyIfNobodyElseCanHavePlantedIt() throws Exception {
        Path tmp = folder.newFolder("tmp").toPath();
        int uid = (Integer) Files.getAttribute(tmp, "unix:uid");
        // As root this test looks for the directory of another user, which does not belong to that user.
        boolean isRoot = uid == 0;
        Path own = tmp.resolve("leafd-" + (isRoot ? 7 : uid));
        Files.createDirectory(own);
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwx------"));
        if (isRoot) {
            assertEquals(systemSocket(), search(7, new HashMap<>()));
            Files.setAttribute(own, "unix:uid", 7, LinkOption.NOFOLLOW_LINKS);
        }
        int user = isRoot ? 7 : uid;
        assertEquals(own.resolve("leafd.sock"), search(user, new HashMap<>()));
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwx-w----"));
        assertEquals(systemSocket(), search(user, new HashMap<>()));
        Path elsewhere = tmp.resolve("elsewhere");
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwx------"));
        Files.move(own, elsewhere);
        Files.createSymbolicLink(own, elsewhere);
        assertEquals(systemSocket(), search(user, new HashMap<>()));
        assertTrue(LeafdOptions.defaultSocket().isAbsolute());
    }

    private Path search(int uid, Map<String, String> environment) {
        Path root = folder.getRoot().toPath();
        return new SocketSearch(environment::get, OptionalInt.of(uid), root).find();
    }

    private Path systemSocket() {
        return folder.getRoot().toPath().resolve("run/leafd/leafd.sock");
    }

    @Test
    public void aCallThatCannotBeWrittenForLackOfMemoryIsNotLost() {
        CallSpec<Long> spec = new CallSpec<>(
                "Test",
                (id, timeoutMs, maxCount) -> {
                    throw new OutOfMemoryError("test");
                },
                reply -> 1L);
        PendingCall<Long> call = new PendingCall<>(spec, Duration.ofSeconds(20));
        CallTable calls = new CallTable(1);
        calls.connected(10, 10);
        calls.add(call);
        assertThrows(OutOfMemoryError.class, () -> calls.send(ByteBuffer.allocate(100), 50, System.nanoTime()));
        calls.failAll(new LeafdException.Closed("client"));
        assertTrue(call.result.isCompletedExceptionally());
    }
}
