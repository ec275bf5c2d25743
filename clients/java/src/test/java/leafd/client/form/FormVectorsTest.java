package leafd.client.form;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import leafd.client.Json;
import leafd.client.Layout;
import org.junit.Test;

/** {@code protocol/forms.json}: every form in both directions, and every text that is none. */
public class FormVectorsTest {
    private static final List<String> UUIDS = List.of("uuid7", "uuid8", "uuid1");

    @Test
    public void everyTextIsMadeAndReadBack() throws Exception {
        for (Map<?, ?> vector : vectors("texts")) {
            TextForm form = TextForm.parse(text(vector, "form"));
            assertEquals(vector.toString(), vector.get("text"), form.encode(id(vector)));
            assertEquals(vector.toString(), id(vector), form.decode(text(vector, "text")));
        }
    }

    @Test
    public void everyWrongTextIsRefused() throws Exception {
        for (Map<?, ?> vector : vectors("refused")) {
            String text = text(vector, "text");
            if (vector.get("form").equals("dated")) {
                assertThrows(text, IllegalArgumentException.class, () -> Day.read(text));
            } else {
                TextForm form = TextForm.parse(text(vector, "form"));
                assertThrows(text, IllegalArgumentException.class, () -> form.decode(text));
            }
        }
    }

    @Test
    public void everyDayHasItsTagAndItsTexts() throws Exception {
        for (Map<?, ?> vector : vectors("days")) {
            Instant time = Instant.ofEpochMilli(Long.parseLong(text(vector, "unix_ms")));
            Day day = Day.at(time, Day.zone(text(vector, "zone")));
            assertEquals(vector.toString(), vector.get("tag"), day.tag("invoices"));
            assertEquals(vector.toString(), vector.get("text"), day.text(id(vector)));
            assertEquals(new Day.Dated(day, id(vector)), Day.read(text(vector, "text")));
        }
    }

    @Test
    public void everySnowflakeBecomesItsUuidsAndObjectIdAndIsReadBack() throws Exception {
        int withoutRoom = 0;
        for (Map<?, ?> group : vectors("snowflakes")) {
            Layout layout = Layout.parse(text(group, "layout"));
            assertEquals(group.get("written"), layout.toString());
            Snowflakes snowflakes = new Snowflakes(layout, FleetId.parse(text(group, "fleet")));
            assertEquals(group.get("fleet"), snowflakes.fleet().toString());
            for (Object of : (List<?>) group.get("ids")) {
                Map<?, ?> vector = (Map<?, ?>) of;
                long id = id(vector);
                for (String form : List.of("uuid7", "uuid8", "uuid1", "objectid")) {
                    String message = layout + " " + form + " " + id;
                    String text = text(vector, form);
                    if (text == null) {
                        withoutRoom++;
                        assertThrows(message, IllegalArgumentException.class, () -> snowflakes.encode(form, id));
                        continue;
                    }
                    assertEquals(message, text, snowflakes.encode(form, id));
                    assertEquals(message, id, snowflakes.decode(form, text));
                    if (UUIDS.contains(form)) {
                        assertEquals(message, id, snowflakes.idOf(UUID.fromString(text)));
                    }
                }
            }
        }
        assertTrue("" + withoutRoom, withoutRoom > 0);
    }

    @Test
    public void everyTextThatNoSnowflakeBecomesIsRefused() throws Exception {
        for (Map<?, ?> vector : vectors("refused_snowflakes")) {
            Layout layout = Layout.parse(text(vector, "layout"));
            Snowflakes snowflakes = new Snowflakes(layout, FleetId.parse(text(vector, "fleet")));
            assertThrows(vector.toString(), IllegalArgumentException.class,
                    () -> snowflakes.decode(text(vector, "form"), text(vector, "text")));
        }
    }

    @Test
    public void everyHashIsMade() throws Exception {
        for (Map<?, ?> vector : vectors("uuid5")) {
            UUID hash = TagHash.uuid5(FleetId.parse(text(vector, "fleet")), text(vector, "tag"), id(vector));
            assertEquals(vector.toString(), vector.get("text"), hash.toString());
        }
    }

    private static List<Map<?, ?>> vectors(String list) throws IOException {
        return Json.vectors("forms.json", list);
    }

    private static String text(Map<?, ?> vector, String field) {
        return (String) vector.get(field);
    }

    private static long id(Map<?, ?> vector) {
        return Long.parseLong(text(vector, "id"));
    }
}
