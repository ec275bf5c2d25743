package leafd.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.Test;

/** The reader of the vectors: a vector that it misread would be checked against nothing. */
public class JsonTest {
    @Test
    public void textsKeepWhatTheyEscape() {
        assertEquals("\u8ba2\u5355 \ud83c\udf43 \"\\/\n\t",
                Json.parse(" \"\\u8ba2\u5355 \\ud83c\\udf43 \\\"\\\\\\/\\n\\t\" "));
    }

    @Test
    public void nullIsToldFromATextAndNumbersStayTexts() {
        assertEquals(Arrays.asList(null, "null", "-1.5", "true", List.of(), Map.of()),
                Json.parse("[null, \"null\", -1.5, true, [], {}]"));
        assertEquals(Map.of("a", Map.of("b", List.of("1"))), Json.parse("{\"a\": {\"b\":\n[1]}}"));
    }

    @Test
    public void whatIsNoJsonIsRefused() {
        for (String wrong : List.of("", "[1 2]", "{\"a\" 1}", "{a: 1}", "[1", "[1]]", "[,]")) {
            assertThrows(wrong, IllegalArgumentException.class, () -> Json.parse(wrong));
        }
    }
}
