package leafd.client.form;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Random;
import org.junit.Test;

/** Numbers that start over every day. */
public class DayTest {
    private final Random random = new Random();

    @Test
    public void theDayIsTheOneOfTheTimeInTheZone() {
        Instant midnight = Instant.parse("2026-11-22T00:00:00Z");
        assertEquals("20261122", Day.at(midnight, ZoneOffset.UTC).toString());
        assertEquals("20261121", Day.at(midnight.minusNanos(1), ZoneOffset.UTC).toString());
        assertEquals("20261121", Day.at(midnight, Day.zone("-00:01")).toString());
        assertEquals("20261122", Day.at(midnight.minusSeconds(60), Day.zone("+00:01")).toString());
        for (int i = 0; i < 5000; i++) {
            ZoneOffset zone = ZoneOffset.ofTotalSeconds(60 * (random.nextInt(2161) - 1080));
            long seconds = random.nextInt() & 0xffffffffL | 1 << 20;
            Instant time = Instant.ofEpochSecond(seconds, random.nextInt(1_000_000_000));
            assertEquals(time + " " + zone, LocalDate.ofInstant(time, zone), Day.at(time, zone).date());
        }
    }

    @Test
    public void timesOutsideHaveTheFirstOrTheLastDay() {
        assertEquals(Day.FIRST, Day.at(Instant.MIN, Day.zone("-18:00")));
        assertEquals(Day.FIRST, Day.at(Instant.ofEpochMilli(-1), ZoneOffset.UTC));
        assertEquals(Day.FIRST, Day.at(Instant.EPOCH, Day.zone("-18:00")));
        assertEquals(Day.LAST, Day.at(Instant.parse("9999-12-31T23:59:59.999Z"), Day.zone("+18:00")));
        assertEquals(Day.LAST, Day.at(Instant.MAX, Day.zone("+18:00")));
        assertEquals("19700101 99991231", Day.FIRST + " " + Day.LAST);
        for (String date : List.of("1969-12-31", "+10000-01-01", "-2026-11-22")) {
            assertThrows(date, IllegalArgumentException.class, () -> new Day(LocalDate.parse(date)));
        }
    }

    @Test
    public void zonesAreUtcOrHoursAndMinutesAndNothingElse() {
        assertEquals(ZoneOffset.UTC, Day.zone("UTC"));
        assertEquals(ZoneOffset.UTC, Day.zone("-00:00"));
        assertEquals(ZoneOffset.ofHoursMinutes(8, 0), Day.zone("+08:00"));
        assertEquals(ZoneOffset.ofHoursMinutes(-3, -30), Day.zone("-03:30"));
        assertEquals(ZoneOffset.MAX, Day.zone("+18:00"));
        assertEquals(ZoneOffset.MIN, Day.zone("-18:00"));
        for (String wrong : List.of("", "Z", "utc", "UTC+8", "+8", "+08", "+0800", "08:00", "+08:60", "+18:01",
                "+19:00", "+08:00:00", " +08:00", "+08:00 ", "+0\u0668:00", "Asia/Shanghai")) {
            IllegalArgumentException error =
                    assertThrows(wrong, IllegalArgumentException.class, () -> Day.zone(wrong));
            assertTrue(error.getMessage(), error.getMessage().startsWith("time zone \"" + wrong + "\": write UTC"));
        }
        ZoneOffset seconds = ZoneOffset.ofHoursMinutesSeconds(8, 5, 43);
        assertThrows(IllegalArgumentException.class, () -> Day.at(Instant.EPOCH, seconds));
    }

    @Test
    public void everyNumberIsReadBackWithItsDay() {
        long days = Day.LAST.date().toEpochDay() + 1;
        for (long id : RandomIds.of(63, 5000)) {
            Day day = new Day(LocalDate.ofEpochDay(random.nextInt((int) days)));
            assertEquals(new Day.Dated(day, id), Day.read(day.text(id)));
            assertEquals("invoices-" + day.text(id).substring(0, 8), day.tag("invoices"));
        }
        assertThrows(IllegalArgumentException.class, () -> Day.FIRST.text(-1));
    }

    @Test
    public void textsSortByDayAndByNumberWhileThisHasSixDigits() {
        for (int i = 0; i < 5000; i++) {
            Day one = new Day(LocalDate.ofEpochDay(random.nextInt(20)));
            Day other = new Day(LocalDate.ofEpochDay(random.nextInt(20)));
            long first = random.nextInt(1_000_000);
            long second = random.nextInt(1_000_000);
            int order = one.equals(other) ? Long.compare(first, second) : Integer.signum(one.compareTo(other));
            assertEquals(order, Integer.signum(one.text(first).compareTo(other.text(second))));
        }
    }

    @Test
    public void aTextWithOneOtherCharacterIsRefusedOrThatOfAnother() {
        String text = "20261122-000017";
        int read = 0;
        for (int at = 0; at < text.length(); at++) {
            for (char other : "0123456789-xX \u0661\u00e9".toCharArray()) {
                String changed = text.substring(0, at) + other + text.substring(at + 1);
                try {
                    Day.Dated found = Day.read(changed);
                    assertEquals(changed, found.day().text(found.id()));
                    read++;
                } catch (IllegalArgumentException wrong) {
                    assertTrue(wrong.getMessage(), wrong.getMessage().startsWith("\"" + changed + "\": "));
                }
            }
        }
        assertTrue("" + read, read > 50);
    }

    @Test
    public void anErrorNamesTheFirstWrongCharacterAndTheRemedy() {
        checkMessage("2026-11-22-000017", "character 5 is \"-\": a decimal digit is expected");
        checkMessage("20261122_000017", "character 9 is \"_\": a hyphen is expected");
        checkMessage("20261122-00001x", "character 15 is \"x\": a decimal digit is expected");
        checkMessage("20261122-0000017", "character 10 is \"0\": it is one zero too many");
        checkMessage("20261122-17", "2 digits instead of at least 6");
        checkMessage("20261122", "it has to begin with a date and a hyphen, such as 20261122-");
        for (String date : List.of("20261322", "20260229", "20261100", "19691231", "00000101")) {
            checkMessage(date + "-000017", date + " is no date: write YYYYMMDD, from 19700101 to 99991231");
        }
        assertEquals("20280229-000017", Day.read("20280229-000017").day().text(17));
    }

    private static void checkMessage(String text, String message) {
        String found = assertThrows(text, IllegalArgumentException.class, () -> Day.read(text)).getMessage();
        assertTrue(found, found.contains(message));
    }
}
