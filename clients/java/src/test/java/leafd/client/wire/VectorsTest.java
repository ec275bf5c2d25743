package leafd.client.wire;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import leafd.client.Json;
import org.junit.Test;

/** {@code protocol/vectors.json}: every message that this client has, as fields and as bytes. */
public class VectorsTest {
    private static final Set<String> MESSAGES = Set.of("Hello", "Segment", "Snowflake", "Time", "Status", "Error",
            "Ids", "Goodbye");

    @Test
    public void everyRequestHasExactlyTheseBytes() throws Exception {
        int checked = 0;
        for (Map<?, ?> vector : vectors("request")) {
            long id = Long.parseUnsignedLong((String) vector.get("id"));
            Map<?, ?> fields = (Map<?, ?>) vector.get("fields");
            byte[] frame = switch ((String) vector.get("message")) {
                case "Hello" -> Request.hello(id, (int) number(fields, "version"));
                case "Segment" -> Request.segment(
                        id, (String) fields.get("tag"), number(fields, "count"), number(fields, "timeout_ms"));
                case "Snowflake" -> Request.snowflake(id, number(fields, "count"), number(fields, "timeout_ms"));
                case "Time" -> Request.time(id);
                default -> Request.status(id);
            };
            assertArrayEquals((String) vector.get("name"), bytes(vector), frame);
            checked++;
        }
        assertTrue("" + checked, checked >= 9);
    }

    @Test
    public void everyResponseIsDecodedToExactlyTheseFields() throws Exception {
        int checked = 0;
        for (Map<?, ?> vector : vectors("response")) {
            byte[] frame = bytes(vector);
            Response response = Response.decode(ByteBuffer.wrap(frame, 4, frame.length - 4));
            String name = (String) vector.get("name");
            assertEquals(name, vector.get("id"), Long.toUnsignedString(response.id()));
            assertEquals(name, vector.get("message"), response.reply().name());
            assertEquals(name, values(vector.get("fields")), values(response.reply()));
            checked++;
        }
        assertTrue("" + checked, checked >= 12);
    }

    @Test
    public void noResponseDecodesIfItIsCutShortOrHasAByteTooMany() throws Exception {
        for (Map<?, ?> vector : vectors("response")) {
            byte[] frame = bytes(vector);
            for (int length = 0; length < frame.length - 4; length++) {
                ByteBuffer cut = ByteBuffer.wrap(frame, 4, length);
                assertThrows(MalformedResponseException.class, () -> Response.decode(cut));
            }
            ByteBuffer longer = ByteBuffer.wrap(Arrays.copyOf(frame, frame.length + 1), 4, frame.length - 3);
            assertThrows(MalformedResponseException.class, () -> Response.decode(longer));
        }
    }

    @Test
    public void damagedBytesNeverThrowAnythingElse() throws Exception {
        for (Map<?, ?> vector : vectors("response")) {
            byte[] frame = bytes(vector);
            for (int at = 4; at < frame.length; at++) {
                for (int damage : new int[] {1, 0x80, 0xff}) {
                    byte[] damaged = frame.clone();
                    damaged[at] ^= (byte) damage;
                    try {
                        Response.decode(ByteBuffer.wrap(damaged, 4, frame.length - 4));
                    } catch (MalformedResponseException expected) {
                        // Most damage is noticed.
                    }
                }
            }
        }
    }

    /** The leaves of a message, in order, so that records and JSON compare. A state begins with its name. */
    private static List<String> values(Object message) throws Exception {
        List<String> values = new ArrayList<>();
        add(message, values);
        return values;
    }

    private static void add(Object value, List<String> values) throws Exception {
        if (value instanceof Map<?, ?> map) {
            if (map.containsKey("first") && map.containsKey("more")) {
                add(map.get("first"), values);
                add(map.get("more"), values);
            } else {
                for (Object field : map.values()) {
                    add(field, values);
                }
            }
        } else if (value instanceof List<?> list) {
            for (Object element : list) {
                add(element, values);
            }
        } else if (value instanceof OptionalLong optional) {
            values.add(optional.isPresent() ? "" + optional.getAsLong() : null);
        } else if (value instanceof Record record) {
            if (value instanceof DaemonStatus.State) {
                values.add(value.getClass().getSimpleName());
            }
            for (var component : record.getClass().getRecordComponents()) {
                add(component.getAccessor().invoke(record), values);
            }
        } else {
            values.add(value == null ? null : value.toString());
        }
    }

    private static long number(Map<?, ?> fields, String name) {
        return Long.parseLong((String) fields.get(name));
    }

    private static byte[] bytes(Map<?, ?> vector) {
        StringBuilder hex = new StringBuilder();
        ((List<?>) vector.get("hex")).forEach(hex::append);
        String digits = hex.toString().replace(" ", "");
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static List<Map<?, ?>> vectors(String direction) throws IOException {
        List<Map<?, ?>> found = new ArrayList<>();
        for (Map<?, ?> vector : Json.vectors("vectors.json", "vectors")) {
            if (direction.equals(vector.get("direction")) && MESSAGES.contains(vector.get("message"))) {
                found.add(vector);
            }
        }
        return found;
    }
}
