package leafd.client.form;

import java.util.Objects;
import java.util.OptionalLong;
import java.util.UUID;
import leafd.client.Layout;

/**
 * Turns the snowflakes of one installation into UUIDs and ObjectIDs, and back.
 *
 * <p>UUIDs of version 7 and 8 and ObjectIDs sort as the snowflakes do, byte by byte or as texts. {@link
 * UUID#compareTo} takes the upper half for a signed number, and so sorts some of version 8 otherwise.
 *
 * <pre>{@code
 * Snowflakes snowflakes = new Snowflakes(Layout.LEAF, FleetId.parse("4be1f0a37c"));
 * snowflakes.uuid7(2124029785372885063L); // 01a1fcd4-5c07-7000-8000-474be1f0a37c
 * }</pre>
 *
 * @param layout the layout of the snowflakes
 * @param fleet the installation's fleet ID
 */
public record Snowflakes(Layout layout, FleetId fleet) {
    private static final String UUID_SHAPE = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    private static final String OBJECT_ID_SHAPE = "x".repeat(24);
    private static final int RFC_9562 = 2;

    private static final long LAST_MS_OF_UUID7 = (1L << 48) - 1;
    private static final long LAST_MS_OF_OBJECT_ID = (1L << 32) * 1000 - 1;

    /** 1970-01-01 in units of 100 ns since 1582-10-15, where UUIDs of version 1 begin. */
    private static final long GREGORIAN_TICKS = 122_192_928_000_000_000L;
    private static final long TICKS_PER_MS = 10_000;
    private static final long LAST_MS_OF_UUID1 = ((1L << 60) - GREGORIAN_TICKS) / TICKS_PER_MS;
    /** Bits of the worker ID in a UUID of version 1: 14 of the clock sequence, and 7 of the node. */
    private static final int WORKER_BITS_OF_UUID1 = 21;
    /** Says that the node is no network card's. */
    private static final long MULTICAST = 1L << 40;

    /** Bits of the fleet ID in an ObjectID, its upper ones. */
    private static final int FLEET_BITS_OF_OBJECT_ID = 20;

    /**
     * The snowflakes of this layout and installation.
     *
     * @param layout the layout
     * @param fleet the fleet ID
     */
    public Snowflakes {
        Objects.requireNonNull(layout);
        Objects.requireNonNull(fleet);
    }

    /**
     * Returns the UUID of version 7: the time in milliseconds, worker and sequence, then the fleet ID.
     *
     * @param id a snowflake of the layout
     * @return the UUID
     * @throws IllegalArgumentException if the ID is none of the layout, or a UUID has no room for the layout or time
     */
    public UUID uuid7(long id) {
        Bits bits = Bits.of("uuid7", layout, id, LAST_MS_OF_UUID7);
        return Bits.uuid(7, bits.unixMs() << 16 | bits.low() >>> 22, bits.low() << FleetId.BITS | fleet.bits());
    }

    /**
     * Returns the UUID of version 8: the number as it is, then the fleet ID. It needs no layout.
     *
     * @param id any ID
     * @return the UUID
     * @throws IllegalArgumentException if the ID is negative
     */
    public UUID uuid8(long id) {
        if (id < 0) {
            throw Wrong.number(id);
        }
        long low = (id & 0b111) << 59 | fleet.bits() << 19;
        return Bits.uuid(8, id >>> 15 << 16 | (id >>> 3 & 0xfff), low);
    }

    /**
     * Returns the UUID of version 1: the time in units of 100 ns, of which the sequence is the last part; the worker
     * in clock sequence and node; and the fleet ID in the node. Its order is not the snowflakes'.
     *
     * @param id a snowflake of the layout
     * @return the UUID
     * @throws IllegalArgumentException if the ID is none of the layout, or a UUID has no room for the layout or time
     */
    public UUID uuid1(long id) {
        Layout.Parts parts = layout.decode(id);
        checkRoomOfUuid1();
        // Compared before it is multiplied: times far in the future are cut to the highest unsigned number.
        boolean isLate = parts.unixMs() < 0 || parts.unixMs() > LAST_MS_OF_UUID1;
        long excess = parts.worker() >>> WORKER_BITS_OF_UUID1 << layout.sequenceBits();
        long ticks = isLate ? -1 : parts.unixMs() * TICKS_PER_MS + GREGORIAN_TICKS + excess + parts.sequence();
        if (ticks >>> 60 != 0) {
            throw Bits.noRoom("uuid1", layout, "the time of " + id + " has more than 60 bits of 100 ns");
        }
        long worker = parts.worker() & ((1L << WORKER_BITS_OF_UUID1) - 1);
        long node = (worker & 0x7f) << 41 | MULTICAST | fleet.bits();
        long high = ticks << 32 | (ticks >>> 32 & 0xffff) << 16 | ticks >>> 48;
        return Bits.uuid(1, high, worker >>> 7 << 48 | node);
    }

    private void checkRoomOfUuid1() {
        int stepBits = Math.max(layout.workerBits() - WORKER_BITS_OF_UUID1, 0) + layout.sequenceBits();
        if (1L << stepBits > layout.unitMs() * TICKS_PER_MS) {
            throw Bits.noRoom("uuid1", layout, "a unit of time has too few steps of 100 ns");
        }
    }

    /**
     * Returns the ObjectID: seconds, milliseconds, worker and sequence, then the upper 20 bits of the fleet ID. Two
     * installations can have these in common.
     *
     * @param id a snowflake of the layout
     * @return 24 lowercase hexadecimal digits
     * @throws IllegalArgumentException if the ID is none of the layout, or an ObjectID has no room for the layout or
     *     time: it ends in 2106
     */
    public String objectId(long id) {
        Bits bits = Bits.of("objectid", layout, id, LAST_MS_OF_OBJECT_ID);
        long milliseconds = bits.unixMs() % 1000 << Bits.LOW_BITS;
        long low = (milliseconds | bits.low()) << FLEET_BITS_OF_OBJECT_ID | upperFleet();
        return Hex.write(bits.unixMs() / 1000, 8) + Hex.write(low, 16);
    }

    private long upperFleet() {
        return fleet.bits() >>> (FleetId.BITS - FLEET_BITS_OF_OBJECT_ID);
    }

    /**
     * Returns the text of a snowflake.
     *
     * @param form {@code uuid7}, {@code uuid8}, {@code uuid1} or {@code objectid}
     * @param id a snowflake of the layout
     * @return the text
     * @throws IllegalArgumentException if there is no such form, or the ID does not have it
     */
    public String encode(String form, long id) {
        return switch (form) {
            case "uuid7" -> uuid7(id).toString();
            case "uuid8" -> uuid8(id).toString();
            case "uuid1" -> uuid1(id).toString();
            case "objectid" -> objectId(id);
            default -> throw unknown(form);
        };
    }

    /**
     * Returns the snowflake of a text. Only the text that {@link #encode} returns is read.
     *
     * @param form {@code uuid7}, {@code uuid8}, {@code uuid1} or {@code objectid}
     * @param text the text
     * @return the snowflake
     * @throws IllegalArgumentException if there is no such form, or no snowflake of this installation has this text
     */
    public long decode(String form, String text) {
        int version = switch (form) {
            case "uuid7" -> 7;
            case "uuid8" -> 8;
            case "uuid1" -> 1;
            case "objectid" -> 0;
            default -> throw unknown(form);
        };
        if (version == 0) {
            return idOfObjectId(text);
        }
        Hex.check(text, UUID_SHAPE);
        // UUID.fromString takes other texts, too, but none of this shape for another UUID.
        UUID uuid = UUID.fromString(text);
        if (uuid.version() != version) {
            throw Wrong.text(text, "it is a UUID of version " + uuid.version() + ", not " + version);
        }
        return idOf(uuid);
    }

    private static IllegalArgumentException unknown(String form) {
        return new IllegalArgumentException("there is no form " + Wrong.quoted(form) + " of snowflakes; there are"
                + " uuid7, uuid8, uuid1 and objectid. TextForm makes forms of the number alone");
    }

    /**
     * Returns the snowflake of a UUID.
     *
     * @param uuid a UUID of version 1, 7 or 8
     * @return the snowflake
     * @throws IllegalArgumentException if it has another version, comes from another installation, or no snowflake of
     *     the layout becomes it
     */
    public long idOf(UUID uuid) {
        String text = uuid.toString();
        int version = uuid.version();
        if (version == 5) {
            throw Wrong.text(text, "a UUID of version 5 is a hash: nothing turns it back into an ID");
        }
        if (uuid.variant() != RFC_9562 || version != 1 && version != 7 && version != 8) {
            throw Wrong.text(text, "it is no UUID of version 1, 7 or 8 by RFC 9562");
        }
        long high = uuid.getMostSignificantBits();
        long low = uuid.getLeastSignificantBits() & Bits.LOW_62;
        FleetId found = new FleetId((version == 8 ? low >>> 19 : low) & FleetId.MASK);
        if (!found.equals(fleet)) {
            throw Wrong.text(text, "it has the fleet ID " + found + ", and this is " + fleet
                    + ": another installation made it");
        }
        OptionalLong id = switch (version) {
            case 7 -> new Bits(high >>> 16, (high & 0xfff) << 22 | low >>> FleetId.BITS).id("uuid7", layout);
            case 8 -> (low & ((1L << 19) - 1)) == 0
                    ? OptionalLong.of(high >>> 16 << 15 | (high & 0xfff) << 3 | low >>> 59)
                    : OptionalLong.empty();
            default -> idOfUuid1(uuid.timestamp(), low);
        };
        return id.orElseThrow(() -> none(text));
    }

    private OptionalLong idOfUuid1(long ticks, long rest) {
        checkRoomOfUuid1();
        long since1970 = ticks - GREGORIAN_TICKS;
        long epochMs = layout.epochMs();
        if ((rest & MULTICAST) == 0 || since1970 < 0 || epochMs < 0 || epochMs > since1970 / TICKS_PER_MS) {
            return OptionalLong.empty();
        }
        long since = since1970 - epochMs * TICKS_PER_MS;
        long ticksPerUnit = layout.unitMs() * TICKS_PER_MS;
        long step = since % ticksPerUnit;
        long sequence = step & ((1L << layout.sequenceBits()) - 1);
        long upperWorker = step >>> layout.sequenceBits();
        long worker = upperWorker << WORKER_BITS_OF_UUID1 | rest >>> 48 << 7 | (rest >>> 41 & 0x7f);
        return layout.compose(since / ticksPerUnit, worker, sequence);
    }

    /**
     * Returns the snowflake of an ObjectID.
     *
     * @param text 24 lowercase hexadecimal digits
     * @return the snowflake
     * @throws IllegalArgumentException if the text is no ObjectID, comes from another installation, or no snowflake of
     *     the layout becomes it
     */
    public long idOfObjectId(String text) {
        Hex.check(text, OBJECT_ID_SHAPE);
        long seconds = Hex.read(text, 0, 8);
        long rest = Hex.read(text, 8, 24);
        if ((rest & ((1L << FLEET_BITS_OF_OBJECT_ID) - 1)) != upperFleet()) {
            throw Wrong.text(text, "it has another fleet ID than " + fleet + ": another installation made it");
        }
        long ms = rest >>> (FLEET_BITS_OF_OBJECT_ID + Bits.LOW_BITS);
        if (ms > 999) {
            throw Wrong.text(text, "it has more than 999 milliseconds");
        }
        long low = (rest >>> FLEET_BITS_OF_OBJECT_ID) & ((1L << Bits.LOW_BITS) - 1);
        return new Bits(seconds * 1000 + ms, low).id("objectid", layout).orElseThrow(() -> none(text));
    }

    private IllegalArgumentException none(String text) {
        return Wrong.text(text, "no snowflake of the layout " + layout + " becomes it. Check the layout and the form");
    }
}
