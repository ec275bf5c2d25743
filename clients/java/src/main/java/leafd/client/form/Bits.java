package leafd.client.form;

import java.util.OptionalLong;
import java.util.UUID;
import leafd.client.Layout;

/**
 * A snowflake as milliseconds and the bits below them, as UUIDs and ObjectIDs hold it.
 *
 * @param unixMs milliseconds since 1970, below 2^62
 * @param low worker and sequence, at most {@link #LOW_BITS} bits
 */
record Bits(long unixMs, long low) {
    /** How many bits below the milliseconds UUIDs and ObjectIDs have room for. */
    static final int LOW_BITS = 34;

    /** The lower half of a UUID without the variant. */
    static final long LOW_62 = (1L << 62) - 1;

    /** Splits a snowflake whose time in this form is at most {@code lastMs}. */
    static Bits of(String form, Layout layout, long id, long lastMs) {
        checkRoom(form, layout);
        long startMs = layout.decode(id).unixMs();
        long all = id & ((1L << lowBits(layout)) - 1);
        long excess = all >>> LOW_BITS;
        // Compared before it is added: times are unsigned, and those far in the future are cut to the highest one.
        if (startMs < 0 || startMs > lastMs - excess) {
            throw noRoom(form, layout, "the time of " + id + " is after " + lastMs + " ms since 1970");
        }
        return new Bits(startMs + excess, all & ((1L << LOW_BITS) - 1));
    }

    /** The snowflake that was split; empty if the layout has none. */
    OptionalLong id(String form, Layout layout) {
        checkRoom(form, layout);
        long epochMs = layout.epochMs();
        if (epochMs < 0 || unixMs < epochMs) {
            return OptionalLong.empty();
        }
        long units = (unixMs - epochMs) / layout.unitMs();
        long excess = (unixMs - epochMs) % layout.unitMs();
        long all = excess << LOW_BITS | low;
        // An excess that the layout does not have is above its low bits, too.
        if (units >>> layout.timeBits() != 0 || all >>> lowBits(layout) != 0) {
            return OptionalLong.empty();
        }
        return OptionalLong.of(units << lowBits(layout) | all);
    }

    /**
     * Refuses a layout whose worker and sequence have too many bits. Those that do not fit into {@link #LOW_BITS} are
     * counted in milliseconds within the layout's unit of time, which has so many that mean nothing.
     */
    private static void checkRoom(String form, Layout layout) {
        int spare = 63 - Long.numberOfLeadingZeros(layout.unitMs());
        if (lowBits(layout) > LOW_BITS + spare) {
            throw noRoom(form, layout, "worker and sequence have " + lowBits(layout) + " bits, more than "
                    + (LOW_BITS + spare));
        }
    }

    private static int lowBits(Layout layout) {
        return layout.workerBits() + layout.sequenceBits();
    }

    static IllegalArgumentException noRoom(String form, Layout layout, String why) {
        return new IllegalArgumentException(form + " has no room for the layout " + layout + ": " + why
                + ". Use uuid8, which has room for every ID");
    }

    /** A UUID of these 128 bits, in which version and variant take the place of what is there. */
    static UUID uuid(int version, long high, long low) {
        return new UUID(high & ~0xf000L | (long) version << 12, low & LOW_62 | 0b10L << 62);
    }
}
