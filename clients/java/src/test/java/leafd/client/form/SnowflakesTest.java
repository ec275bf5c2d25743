package leafd.client.form;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Random;
import java.util.UUID;
import leafd.client.Layout;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;

/** UUIDs and ObjectIDs of snowflakes, over the whole range of IDs and in odd layouts. */
public class SnowflakesTest {
    private static final FleetId FLEET = FleetId.parse("4be1f0a37c");
    private static final List<String> FORMS = List.of("uuid7", "uuid8", "uuid1", "objectid");
    private static final List<String> SORTED = List.of("uuid7", "uuid8", "objectid");
    /** The presets, and what else UUIDs have room for. */
    private static final List<String> LAYOUTS = List.of("leaf", "twitter", "baidu", "js", "sonyflake", "discord",
            "45/6/12@2026-01-01/10ms", "20/30/13@2026-01-01/1000ms", "26/25/12@2026-01-01/10ms", "41/0/12@2026-01-01",
            "42/s12/w9@0", "51/10/2@0");
    /** No room, or room only for the first times. */
    private static final List<String> WITHOUT_ROOM = List.of("20/30/13@0", "55/4/4@0/1000ms", "41/4/18@0", "1/61/1@0",
            "1/0/62@0", "61/1/1@18446744073709551615/1000ms", "41/10/12@18446744073709551615/1000ms",
            "20/30/13@281474976710655/1000ms", "41/10/12@9223372036854775807");

    private final Random random = new Random();

    @Test
    public void everySnowflakeIsReadBackFromItsUuidsAndItsObjectId() {
        for (String written : LAYOUTS) {
            Snowflakes snowflakes = of(written);
            for (long id : idsOf(snowflakes.layout(), 1000)) {
                for (String form : FORMS) {
                    String text = textOrNull(snowflakes, form, id);
                    if (text != null) {
                        assertEquals(written + " " + form + " " + id, id, snowflakes.decode(form, text));
                    }
                }
                assertEquals(id, snowflakes.idOf(snowflakes.uuid8(id)));
            }
            assertEquals(0, snowflakes.idOf(snowflakes.uuid7(0)));
            assertEquals(0, snowflakes.idOfObjectId(snowflakes.objectId(0)));
        }
    }

    @Test
    public void anOddLayoutGivesTheSameIdBackOrNoUuidAtAll() {
        int refused = 0;
        for (String written : WITHOUT_ROOM) {
            Snowflakes snowflakes = of(written);
            for (long id : idsOf(snowflakes.layout(), 1000)) {
                for (String form : FORMS) {
                    String text = textOrNull(snowflakes, form, id);
                    if (text == null) {
                        assertNotEquals("there is room for every number", "uuid8", form);
                        refused++;
                    } else {
                        assertEquals(written + " " + form + " " + id, id, snowflakes.decode(form, text));
                    }
                }
            }
        }
        assertTrue("" + refused, refused > 1000);
    }

    @Test
    public void twoSnowflakesSortAsTheirTextsDo() {
        for (String written : LAYOUTS) {
            Snowflakes snowflakes = of(written);
            long[] ids = idsOf(snowflakes.layout(), 1000);
            for (int i = 1; i < ids.length; i++) {
                for (String form : SORTED) {
                    String one = textOrNull(snowflakes, form, ids[i - 1]);
                    String other = textOrNull(snowflakes, form, ids[i]);
                    if (one != null && other != null) {
                        assertEquals(written + " " + form + " " + ids[i - 1] + " " + ids[i],
                                Long.compare(ids[i - 1], ids[i]), Integer.signum(one.compareTo(other)));
                    }
                }
            }
        }
    }

    @Test
    public void aTextWithOneOtherCharacterIsRefusedOrThatOfAnotherSnowflake() {
        int read = 0;
        int refused = 0;
        for (String written : LAYOUTS) {
            Snowflakes snowflakes = of(written);
            for (long id : idsOf(snowflakes.layout(), 300)) {
                for (String form : FORMS) {
                    String text = textOrNull(snowflakes, form, id);
                    if (text == null) {
                        continue;
                    }
                    int at = random.nextInt(text.length());
                    char other = "0123456789abcdefABCDEF-g\u0661".charAt(random.nextInt(25));
                    String changed = text.substring(0, at) + other + text.substring(at + 1);
                    try {
                        long found = snowflakes.decode(form, changed);
                        assertEquals(written + " " + form, changed, snowflakes.encode(form, found));
                        read++;
                    } catch (IllegalArgumentException wrong) {
                        refused++;
                    }
                }
            }
        }
        assertTrue(read + " " + refused, read > 1000 && refused > 1000);
    }

    @Test
    public void anyUuidIsRefusedOrTheOneOfItsSnowflake() {
        for (String written : LAYOUTS) {
            Snowflakes snowflakes = of(written);
            for (int i = 0; i < 3000; i++) {
                int version = List.of(1, 7, 8).get(i % 3);
                long low = random.nextLong() & ~FleetId.MASK | FLEET.bits();
                UUID uuid = Bits.uuid(version, random.nextLong(),
                        version == 8 ? random.nextLong() & 7L << 59 | FLEET.bits() << 19 : low);
                try {
                    long id = snowflakes.idOf(uuid);
                    assertEquals(written, uuid.toString(), snowflakes.encode("uuid" + version, id));
                } catch (IllegalArgumentException wrong) {
                    assertTrue(wrong.getMessage(), wrong.getMessage().contains("becomes it")
                            || wrong.getMessage().contains("no room"));
                }
            }
        }
    }

    @Test
    public void uuidsHaveTheirFieldsWhereRfc9562PutsThem() {
        Layout layout = Layout.LEAF;
        Snowflakes snowflakes = new Snowflakes(layout, FLEET);
        long id = layout.compose(1_700_000_000_000L - layout.epochMs(), 513, 77).getAsLong();
        UUID seven = snowflakes.uuid7(id);
        UUID eight = snowflakes.uuid8(id);
        UUID one = snowflakes.uuid1(id);
        assertEquals(List.of(7, 8, 1), List.of(seven.version(), eight.version(), one.version()));
        assertEquals(List.of(2, 2, 2), List.of(seven.variant(), eight.variant(), one.variant()));
        assertEquals(1_700_000_000_000L, seven.getMostSignificantBits() >>> 16);
        assertEquals(1_700_000_000_000L * 10_000 + 122_192_928_000_000_000L + 77, one.timestamp());
        assertEquals("the node is no network card's", 1, one.node() >>> 40 & 1);
        assertEquals(FLEET.bits(), one.node() & FleetId.MASK);
        assertEquals(513 >>> 7, one.clockSequence());
        assertEquals("01a1fcd4-5c07-7000-8000-474be1f0a37c", snowflakes.uuid7(2124029785372885063L).toString());
    }

    @Test
    public void theLastTimeThatFitsIsReadBackAndTheNextOneIsRefused() {
        checkLast("uuid7", "60/1/1@0", (1L << 48) - 1);
        checkLast("uuid1", "60/1/1@0", ((1L << 60) - 1 - 122_192_928_000_000_000L) / 10_000);
        checkLast("objectid", "60/1/1@0", (1L << 32) * 1000 - 1);
        // Only 6,976 steps of the last millisecond have 60 bits.
        long lastMs = ((1L << 60) - 122_192_928_000_000_000L) / 10_000;
        Snowflakes steps = of("49/1/13@0");
        long room = (1L << 60) - 122_192_928_000_000_000L - lastMs * 10_000;
        assertTrue("" + room, room > 0 && room < 8192);
        long id = lastMs << 14;
        assertEquals(id | room - 1, steps.idOf(steps.uuid1(id | room - 1)));
        checkRefused(() -> steps.uuid1(id | room));
        // Of the time unit, nine bits go to worker and sequence, which must not pass the last millisecond either.
        Snowflakes excess = of("20/30/13@281474976710655/1000ms");
        assertEquals(0, excess.idOf(excess.uuid7(0)));
        assertThrows(IllegalArgumentException.class, () -> excess.uuid7(1L << 34));
    }

    @Test
    public void workerAndSequenceMayHaveAsManyBitsAsThereIsRoomFor() {
        for (String fits : List.of("29/22/12@0", "26/25/12@0/10ms", "20/30/13@0/1000ms")) {
            Snowflakes snowflakes = of(fits);
            long id = (5L << (63 - snowflakes.layout().timeBits())) - 1;
            assertEquals(fits, id, snowflakes.idOf(snowflakes.uuid7(id)));
            assertEquals(fits, id, snowflakes.idOfObjectId(snowflakes.objectId(id)));
        }
        for (String tooMany : List.of("28/23/12@0", "25/26/12@0/10ms", "19/31/13@0/1000ms")) {
            Snowflakes snowflakes = of(tooMany);
            checkRefused(() -> snowflakes.uuid7(0));
            checkRefused(() -> snowflakes.objectId(0));
            checkRefused(() -> snowflakes.idOf(of("leaf").uuid7(0)));
        }
    }

    @Test
    public void noUuidIsReadAsATimeBeforeTheEpoch() {
        // Read as a signed number, such an epoch is shortly before 1970.
        Snowflakes first = of("41/10/12@0");
        for (String late : List.of("41/10/12@18446744073709551615", "41/10/12@1", "41/10/12@9223372036854775808")) {
            for (String form : List.of("uuid7", "uuid1", "objectid")) {
                String text = first.encode(form, 0);
                assertTrue(checkRefused(() -> of(late).decode(form, text)).contains("becomes it"));
            }
        }
        UUID before1970 = Bits.uuid(1, 0, 1L << 40 | FLEET.bits());
        assertTrue(checkRefused(() -> first.idOf(before1970)).contains("becomes it"));
    }

    private static void checkLast(String form, String written, long lastMs) {
        Snowflakes snowflakes = of(written);
        assertEquals(lastMs << 2, snowflakes.decode(form, snowflakes.encode(form, lastMs << 2)));
        String message = checkRefused(() -> snowflakes.encode(form, (lastMs + 1) << 2));
        assertTrue(message, message.startsWith(form + " has no room for the layout " + written));
    }

    @Test
    public void aLayoutWithoutRoomIsRefusedWithTheReasonAndTheRemedy() {
        String seven = checkRefused(() -> of("20/30/13@0").uuid7(1));
        assertEquals("uuid7 has no room for the layout 20/30/13@0/1ms: worker and sequence have 43 bits, more than 34."
                + " Use uuid8, which has room for every ID", seven);
        String one = checkRefused(() -> of("41/4/18@0").uuid1(1));
        assertTrue(one, one.contains("uuid1 has no room") && one.contains("too few steps of 100 ns"));
        String read = checkRefused(() -> of("41/4/18@0").idOf(of("leaf").uuid1(1)));
        assertTrue(read, read.contains("too few steps of 100 ns"));
        String late = checkRefused(() -> of("41/10/12@18446744073709551615").objectId(1L << 40));
        assertTrue(late, late.startsWith("objectid has no room"));
        String negative = checkRefused(() -> of("leaf").uuid8(-1));
        assertTrue(negative, negative.contains("-1 is not between 0 and 2^63 - 1"));
        for (String form : FORMS) {
            checkRefused(() -> of("leaf").encode(form, -1));
        }
        checkRefused(() -> of("js").uuid7(1L << 53));
    }

    @Test
    public void whatAnotherInstallationMadeIsRefused() {
        Snowflakes here = of("leaf");
        Snowflakes there = new Snowflakes(Layout.LEAF, FleetId.parse("0000000001"));
        for (UUID uuid : List.of(there.uuid7(1), there.uuid8(1), there.uuid1(1))) {
            String message = checkRefused(() -> here.idOf(uuid));
            assertEquals("\"" + uuid + "\": it has the fleet ID 0000000001, and this is 4be1f0a37c: another"
                    + " installation made it", message);
        }
        String message = checkRefused(() -> here.idOfObjectId(there.objectId(1)));
        assertTrue(message, message.contains("another installation"));
    }

    @Test
    public void anErrorNamesTheFirstWrongCharacterAndTheRemedy() {
        Snowflakes snowflakes = of("leaf");
        String uuid = snowflakes.encode("uuid7", 2124029785372885063L);
        checkMessage("uuid7", uuid.toUpperCase(), "character 3 is \"A\": write lowercase letters");
        checkMessage("uuid7", uuid.replace("-", ""), "character 9 is \"5\": a hyphen is expected");
        checkMessage("uuid7", "{" + uuid + "}", "character 1 is \"{\": a hexadecimal digit is expected");
        checkMessage("uuid7", uuid + "0", "37 characters instead of 36");
        checkMessage("uuid8", uuid, "it is a UUID of version 7, not 8");
        checkMessage("objectid", "7a40888", "7 characters instead of 24");
        checkMessage("uuid6", uuid, "there is no form \"uuid6\" of snowflakes; there are uuid7, uuid8");
        String hash = checkRefused(() -> snowflakes.idOf(TagHash.uuid5(FLEET, "orders", 17)));
        assertTrue(hash, hash.contains("a hash: nothing turns it back"));
        String random = checkRefused(() -> snowflakes.idOf(UUID.randomUUID()));
        assertTrue(random, random.contains("it is no UUID of version 1, 7 or 8"));
        assertThrows(IllegalArgumentException.class, () -> snowflakes.encode("UUID7", 1));
    }

    @Test
    public void fleetIdsAreTenLowercaseDigitsAndNothingElse() {
        assertEquals("00000000ff", FleetId.parse("00000000ff").toString());
        assertEquals(new FleetId(255), FleetId.parse("00000000ff"));
        for (String wrong : List.of("", "ff", "00000000FF", "00000000fg", "000000000ff", "+0000000ff",
                "00000000f\u00e9", "-000000001")) {
            String message = checkRefused(() -> FleetId.parse(wrong));
            assertTrue(message, message.startsWith("fleet ID \"" + wrong + "\": ")
                    && message.endsWith("10 lowercase hexadecimal digits, such as 4be1f0a37c"));
        }
        checkRefused(() -> new FleetId(1L << 40));
        checkRefused(() -> new FleetId(-1));
    }

    @Test
    public void aTagThatCannotBeWrittenAndAWrongIdHaveNoHash() {
        UUID hash = TagHash.uuid5(FLEET, "orders", 17);
        assertEquals("adfb5ca8-e8bd-5af9-b46f-094074943394", hash.toString());
        assertNotEquals(hash, TagHash.uuid5(new FleetId(1), "orders", 17));
        assertNotEquals(hash, TagHash.uuid5(FLEET, "order", 17));
        assertNotEquals(hash, TagHash.uuid5(FLEET, "orders", 18));
        assertEquals("tag \"half \\ud800\": it contains half of a surrogate pair; remove it",
                checkRefused(() -> TagHash.uuid5(FLEET, "half \ud800", 17)));
        checkRefused(() -> TagHash.uuid5(FLEET, "orders", -1));
    }

    private static void checkMessage(String form, String text, String message) {
        String found = checkRefused(() -> of("leaf").decode(form, text));
        assertTrue(found, found.contains(message));
    }

    private static String checkRefused(ThrowingRunnable refused) {
        return assertThrows(IllegalArgumentException.class, refused).getMessage();
    }

    /** Null if the form has no room for the layout, or for this time in it. */
    private static String textOrNull(Snowflakes snowflakes, String form, long id) {
        try {
            return snowflakes.encode(form, id);
        } catch (IllegalArgumentException noRoom) {
            assertTrue(noRoom.getMessage(), noRoom.getMessage().startsWith(form + " has no room"));
            return null;
        }
    }

    private static Snowflakes of(String layout) {
        return new Snowflakes(Layout.parse(layout), FLEET);
    }

    /** IDs of the layout, and with the same time the first and last of its unit. */
    private static long[] idsOf(Layout layout, int count) {
        int lowBits = layout.workerBits() + layout.sequenceBits();
        long[] ids = RandomIds.of(layout.timeBits() + lowBits, count);
        for (int i = 0; i + 2 < ids.length; i += 3) {
            ids[i + 1] = ids[i] >>> lowBits << lowBits;
            ids[i + 2] = ids[i] | (1L << lowBits) - 1;
        }
        return ids;
    }
}
