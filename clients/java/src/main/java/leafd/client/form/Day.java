package leafd.client.form;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A date whose IDs have a tag of their own, for numbers that start over every day, such as {@code 20261122-000017}.
 *
 * <p>Read the clock once, and take both the tag and the text from the same {@code Day}: then the date in the text is
 * the one that the number belongs to, even at midnight.
 *
 * <pre>{@code
 * Day day = Day.at(Instant.now(), Day.zone("+08:00"));
 * String text = day.text(client.next(day.tag("invoices")));
 * }</pre>
 *
 * @param date the date, from 1970-01-01 to 9999-12-31
 */
public record Day(LocalDate date) implements Comparable<Day> {
    /** The first day, 1970-01-01. */
    public static final Day FIRST = new Day(LocalDate.EPOCH);
    /** The last day, 9999-12-31. */
    public static final Day LAST = new Day(LocalDate.of(9999, 12, 31));

    private static final Pattern ZONE = Pattern.compile("([+-])([0-9]{2}):([0-5][0-9])");
    private static final int MOST_ZONE_MINUTES = 18 * 60;
    private static final int DATE_DIGITS = 8;
    private static final int LEAST_DIGITS = 6;

    /**
     * The day of a date.
     *
     * @param date the date
     * @throws IllegalArgumentException if it is before 1970 or after 9999
     */
    public Day {
        if (date.getYear() < 1970 || date.getYear() > 9999) {
            throw new IllegalArgumentException("the date " + date + " is not from 1970-01-01 to 9999-12-31");
        }
    }

    /**
     * Returns the day at a time.
     *
     * @param time the time; one outside has the first or last day
     * @param zone the distance from UTC, in hours and minutes
     * @return the day
     * @throws IllegalArgumentException if the zone has seconds
     */
    public static Day at(Instant time, ZoneOffset zone) {
        if (zone.getTotalSeconds() % 60 != 0) {
            throw badZone(zone.toString());
        }
        long day = Math.floorDiv(time.getEpochSecond() + zone.getTotalSeconds(), 86_400L);
        long last = LAST.date.toEpochDay();
        return new Day(LocalDate.ofEpochDay(Math.min(Math.max(day, 0), last)));
    }

    /**
     * Reads a zone as leafd does: {@code UTC}, or hours and minutes from it such as {@code +08:00} or {@code -03:30},
     * at most 18 hours. {@link ZoneOffset#of} would take more.
     *
     * @param text the zone
     * @return the zone
     * @throws IllegalArgumentException if the text is anything else
     */
    public static ZoneOffset zone(String text) {
        if (text.equals("UTC")) {
            return ZoneOffset.UTC;
        }
        Matcher parts = ZONE.matcher(text);
        if (!parts.matches()) {
            throw badZone(text);
        }
        int minutes = Integer.parseInt(parts.group(2)) * 60 + Integer.parseInt(parts.group(3));
        if (minutes > MOST_ZONE_MINUTES) {
            throw badZone(text);
        }
        return ZoneOffset.ofTotalSeconds(60 * (parts.group(1).equals("-") ? -minutes : minutes));
    }

    private static IllegalArgumentException badZone(String text) {
        return new IllegalArgumentException("time zone " + Wrong.quoted(text)
                + ": write UTC, or hours and minutes from it up to 18:00, such as +08:00 or -03:30");
    }

    /**
     * Returns the tag of this day's IDs, such as {@code invoices-20261122}.
     *
     * @param base the tag's name without the date
     * @return the tag
     */
    public String tag(String base) {
        return Objects.requireNonNull(base) + "-" + this;
    }

    /**
     * Returns the text of an ID of this day's tag, such as {@code 20261122-000017}.
     *
     * @param id the ID, from 0 to 2^63 - 1
     * @return the text: the date, a hyphen, and at least 6 digits
     * @throws IllegalArgumentException if the ID is negative
     */
    public String text(long id) {
        if (id < 0) {
            throw Wrong.number(id);
        }
        return this + "-" + Decimal.write(id, LEAST_DIGITS);
    }

    /**
     * Reads what {@link #text} writes, and nothing else.
     *
     * @param text the text
     * @return the day and the ID
     * @throws IllegalArgumentException if it is no such text
     */
    public static Dated read(String text) {
        Decimal.checkDigits(text, 0, Math.min(text.length(), DATE_DIGITS));
        if (text.length() <= DATE_DIGITS) {
            throw Wrong.text(text, "it has to begin with a date and a hyphen, such as 20261122-");
        }
        if (text.charAt(DATE_DIGITS) != '-') {
            throw Wrong.character(text, DATE_DIGITS, "a hyphen is expected");
        }
        Day day = day(text);
        return new Dated(day, Decimal.read(text, DATE_DIGITS + 1, LEAST_DIGITS));
    }

    /** The day of the eight digits that the text begins with. */
    private static Day day(String text) {
        try {
            return new Day(LocalDate.of(
                    Integer.parseInt(text, 0, 4, 10),
                    Integer.parseInt(text, 4, 6, 10),
                    Integer.parseInt(text, 6, DATE_DIGITS, 10)));
        } catch (DateTimeException | IllegalArgumentException invalid) {
            throw Wrong.text(text, text.substring(0, DATE_DIGITS)
                    + " is no date: write YYYYMMDD, from 19700101 to 99991231");
        }
    }

    @Override
    public int compareTo(Day other) {
        return date.compareTo(other.date);
    }

    /** Writes YYYYMMDD. */
    @Override
    public String toString() {
        long digits = date.getYear() * 10_000L + date.getMonthValue() * 100 + date.getDayOfMonth();
        return Decimal.write(digits, DATE_DIGITS);
    }

    /**
     * A number of a day.
     *
     * @param day the day
     * @param id the ID of the day's tag
     */
    public record Dated(Day day, long id) {}
}
