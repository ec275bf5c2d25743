package leafd.client;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The bits of a snowflake ID: time, worker and sequence, at most 63 in all.
 *
 * <p>Plain arithmetic; no clock and no connection.
 */
public final class Layout {
    /** Leaf's: 41 bits for milliseconds since 2010-11-04, 10 for the worker, 12 for the sequence. */
    public static final Layout LEAF = new Layout(41, 0, 10, 12, 1_288_834_974_657L, 1, false);
    /** Twitter's: Leaf's, with 5 of the worker bits for the data centre. */
    public static final Layout TWITTER = new Layout(41, 5, 10, 12, 1_288_834_974_657L, 1, false);
    /** Baidu's: 28 bits for seconds since 2016-05-20 in Shanghai, 22 for the worker, 13 for the sequence. */
    public static final Layout BAIDU = new Layout(28, 0, 22, 13, 1_463_673_600_000L, 1000, false);
    /** 53 bits, which fit a double: 37 for units of 10 ms since 2026-01-01, 8 for the worker, 8 for the sequence. */
    public static final Layout JS = new Layout(37, 0, 8, 8, 1_767_225_600_000L, 10, false);
    /** Sonyflake's: 39 bits for units of 10 ms since 2014-09-01, 8 for the sequence, 16 for the worker below it. */
    public static final Layout SONYFLAKE = new Layout(39, 0, 16, 8, 1_409_529_600_000L, 10, true);
    /** Discord's: Twitter's, with milliseconds since 2015-01-01. */
    public static final Layout DISCORD = new Layout(41, 5, 10, 12, 1_420_070_400_000L, 1, false);

    private static final Pattern WRITTEN = Pattern.compile(
            "([0-9]{1,2})/(?:([0-9]{1,2})\\+)?([0-9]{1,2})/([0-9]{1,2})@([^/]+)(?:/([0-9]{1,5})ms)?");
    /** In the groups of {@link #WRITTEN}, once its two fields have changed places. */
    private static final Pattern SWAPPED = Pattern.compile("([^/]*)/s([^/]*)/w([^/@]*)(@.*)", Pattern.DOTALL);
    private static final Pattern DATE = Pattern.compile(
            "([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{3})?)[Zz])?");

    private final int timeBits;
    private final int datacenterBits;
    private final int workerBits;
    private final int sequenceBits;
    private final long epochMs;
    private final long unitMs;
    private final boolean sequenceAboveWorker;

    private Layout(int timeBits, int datacenterBits, int workerBits, int sequenceBits, long epochMs, long unitMs,
            boolean sequenceAboveWorker) {
        this.timeBits = timeBits;
        this.datacenterBits = datacenterBits;
        this.workerBits = workerBits;
        this.sequenceBits = sequenceBits;
        this.epochMs = epochMs;
        this.unitMs = unitMs;
        this.sequenceAboveWorker = sequenceAboveWorker;
    }

    /**
     * Reads a layout as the daemon writes it: {@code leaf}, {@code twitter}, {@code baidu}, {@code js},
     * {@code sonyflake} or {@code discord}, one of them with another epoch ({@code baidu@2026-01-01}), or
     * {@code TIME/WORKER/SEQUENCE@EPOCH/UNITms}, where the unit defaults to 1 ms. {@code
     * TIME/sSEQUENCE/wWORKER@EPOCH/UNITms} has the sequence above the worker. An epoch is in milliseconds since
     * 1970, or a date in UTC.
     *
     * @param text the layout
     * @return the layout
     * @throws IllegalArgumentException if the text is anything else, or its bits add up to more than 63
     */
    public static Layout parse(String text) {
        int at = text.indexOf('@');
        Layout preset = preset(at < 0 ? text : text.substring(0, at));
        if (preset != null) {
            long epoch = at < 0 ? preset.epochMs : epoch(text, text.substring(at + 1));
            return new Layout(preset.timeBits, preset.datacenterBits, preset.workerBits, preset.sequenceBits,
                    epoch, preset.unitMs, preset.sequenceAboveWorker);
        }
        Matcher swapped = SWAPPED.matcher(text);
        boolean sequenceAboveWorker = swapped.matches();
        String usual = sequenceAboveWorker
                ? swapped.group(1) + "/" + swapped.group(3) + "/" + swapped.group(2) + swapped.group(4)
                : text;
        Matcher parts = WRITTEN.matcher(usual);
        if (!parts.matches()) {
            throw unknown(text);
        }
        int datacenter = parts.group(2) == null ? 0 : Integer.parseInt(parts.group(2));
        int time = Integer.parseInt(parts.group(1));
        int worker = datacenter + Integer.parseInt(parts.group(3));
        int sequence = Integer.parseInt(parts.group(4));
        long unit = parts.group(6) == null ? 1 : Long.parseLong(parts.group(6));
        long epoch = epoch(text, parts.group(5));
        if (time + worker + sequence > 63) {
            throw new IllegalArgumentException("layout \"" + text + "\": time " + time + " + worker " + worker
                    + " + sequence " + sequence + " bits make " + (time + worker + sequence)
                    + ", more than 63");
        }
        if (time == 0 || sequence == 0) {
            throw new IllegalArgumentException("layout \"" + text + "\": time and sequence need a bit each");
        }
        if (unit != 1 && unit != 10 && unit != 1000) {
            throw new IllegalArgumentException("layout \"" + text + "\": the unit is 1, 10 or 1000 ms");
        }
        return new Layout(time, datacenter, worker, sequence, epoch, unit, sequenceAboveWorker);
    }

    /**
     * Splits an ID into its parts.
     *
     * @param id an ID of this layout
     * @return the parts
     * @throws IllegalArgumentException if the ID is negative, which is above 2^63 - 1 if read as unsigned, or has
     *     more bits than the layout
     */
    public Parts decode(long id) {
        if (id < 0) {
            throw new IllegalArgumentException(
                    Long.toUnsignedString(id) + " is above 2^63 - 1, so it is no snowflake ID");
        }
        long units = id >>> (workerBits + sequenceBits);
        if (units > mask(timeBits)) {
            throw new IllegalArgumentException(
                    id + " has more than the " + (timeBits + workerBits + sequenceBits) + " bits of this layout");
        }
        long worker = (id >>> (sequenceAboveWorker ? 0 : sequenceBits)) & mask(workerBits);
        OptionalLong datacenter = datacenterBits == 0
                ? OptionalLong.empty()
                : OptionalLong.of(worker >>> (workerBits - datacenterBits));
        long sequence = (id >>> (sequenceAboveWorker ? workerBits : 0)) & mask(sequenceBits);
        return new Parts(timeAt(units), worker, datacenter, sequence);
    }

    /**
     * Composes an ID of its parts.
     *
     * @param units the time, in units since the epoch
     * @param worker the worker ID, data centre bits included
     * @param sequence the number within the time unit
     * @return the ID; empty if a part is negative or has more bits than its field
     */
    public OptionalLong compose(long units, long worker, long sequence) {
        if (!fits(units, timeBits) || !fits(worker, workerBits) || !fits(sequence, sequenceBits)) {
            return OptionalLong.empty();
        }
        long low = sequenceAboveWorker ? sequence << workerBits | worker : worker << sequenceBits | sequence;
        return OptionalLong.of(units << (workerBits + sequenceBits) | low);
    }

    /**
     * Returns how many bits the time has.
     *
     * @return from 1 to 62
     */
    public int timeBits() {
        return timeBits;
    }

    /**
     * Returns how many bits the worker ID has, data centre bits included.
     *
     * @return from 0 to 61
     */
    public int workerBits() {
        return workerBits;
    }

    /**
     * Returns how many of the upper worker bits stand for the data centre.
     *
     * @return from 0 to {@link #workerBits}
     */
    public int datacenterBits() {
        return datacenterBits;
    }

    /**
     * Returns how many bits the sequence has.
     *
     * @return from 1 to 62
     */
    public int sequenceBits() {
        return sequenceBits;
    }

    /**
     * Returns the time that the layout counts from.
     *
     * @return milliseconds since 1970, unsigned
     */
    public long epochMs() {
        return epochMs;
    }

    /**
     * Returns how long a unit of time is.
     *
     * @return milliseconds: 1, 10 or 1000
     */
    public long unitMs() {
        return unitMs;
    }

    /**
     * Returns the order of the two fields below the time.
     *
     * @return whether the sequence is above the worker ID
     */
    public boolean sequenceAboveWorker() {
        return sequenceAboveWorker;
    }

    /** Times far in the future are cut to the highest unsigned number. */
    private long timeAt(long units) {
        if (Long.compareUnsigned(units, Long.divideUnsigned(-1, unitMs)) > 0) {
            return -1;
        }
        long unixMs = epochMs + units * unitMs;
        return Long.compareUnsigned(unixMs, epochMs) < 0 ? -1 : unixMs;
    }

    private static boolean fits(long part, int bits) {
        return part >= 0 && part <= mask(bits);
    }

    private static long mask(int bits) {
        return (1L << bits) - 1;
    }

    private static Layout preset(String name) {
        return switch (name) {
            case "leaf" -> LEAF;
            case "twitter" -> TWITTER;
            case "baidu" -> BAIDU;
            case "js" -> JS;
            case "sonyflake" -> SONYFLAKE;
            case "discord" -> DISCORD;
            default -> null;
        };
    }

    private static long epoch(String text, String epoch) {
        try {
            if (epoch.matches("[0-9]+")) {
                return Long.parseUnsignedLong(epoch);
            }
            Matcher date = DATE.matcher(epoch);
            if (date.matches()) {
                LocalTime time = date.group(2) == null ? LocalTime.MIDNIGHT : LocalTime.parse(date.group(2));
                long ms = LocalDate.parse(date.group(1)).atTime(time).toInstant(ZoneOffset.UTC).toEpochMilli();
                if (ms >= 0) {
                    return ms;
                }
            }
        } catch (NumberFormatException | DateTimeException invalid) {
            // Reported below.
        }
        throw unknown(text);
    }

    private static IllegalArgumentException unknown(String text) {
        return new IllegalArgumentException("layout \"" + text + "\" is neither leaf, twitter, baidu, js, sonyflake"
                + " or discord, each with an optional epoch as in baidu@2026-01-01, nor"
                + " TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in 28/22/13@2026-01-01/1000ms, nor"
                + " TIME/sSEQUENCE/wWORKER@EPOCH, as in 39/s8/w16@2026-01-01/10ms");
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Layout && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
        return Objects.hash(timeBits, datacenterBits, workerBits, sequenceBits, epochMs, unitMs,
                sequenceAboveWorker);
    }

    /** Writes the form that {@link #parse} reads, with the epoch in milliseconds. */
    @Override
    public String toString() {
        String worker = datacenterBits == 0
                ? "" + workerBits
                : datacenterBits + "+" + (workerBits - datacenterBits);
        String low = sequenceAboveWorker ? "s" + sequenceBits + "/w" + worker : worker + "/" + sequenceBits;
        return timeBits + "/" + low + "@" + Long.toUnsignedString(epochMs) + "/" + unitMs + "ms";
    }

    /**
     * The parts of a snowflake ID.
     *
     * @param unixMs the start of the ID's time unit, in milliseconds since 1970, unsigned
     * @param worker the worker ID, data centre bits included
     * @param datacenter the data centre, if the layout has one
     * @param sequence the number within the time unit
     */
    public record Parts(long unixMs, long worker, OptionalLong datacenter, long sequence) {
        /**
         * Returns the time of the ID.
         *
         * @return the start of its time unit
         */
        public Instant time() {
            return Instant.ofEpochSecond(Long.divideUnsigned(unixMs, 1000))
                    .plusMillis(Long.remainderUnsigned(unixMs, 1000));
        }
    }
}
