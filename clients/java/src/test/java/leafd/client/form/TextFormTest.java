package leafd.client.form;

import static leafd.client.form.RandomIds.MAX;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Random;
import org.junit.Test;

/** Texts of the number: each ID has exactly one, in the order that the page promises. */
public class TextFormTest {
    private static final List<String> FORMS = List.of("decimal", "base62", "base36", "crockford32", "padded1",
            "padded8", "padded19", "ord_decimal", "ord_base62", "ord_base36", "ord_crockford32", "line_item_padded8");

    private final Random random = new Random();

    @Test
    public void everyIdIsReadBackFromItsText() {
        for (String name : FORMS) {
            TextForm form = TextForm.parse(name);
            for (long id : RandomIds.of(63, 5000)) {
                assertEquals(name, id, form.decode(form.encode(id)));
            }
        }
    }

    @Test
    public void textsSortAsTheNumbersWhileTheseFitTheWidth() {
        for (String name : List.of("base62", "base36", "crockford32", "padded", "ord_base62", "ord_padded19")) {
            checkOrder(name, RandomIds.of(63, 5000));
        }
        checkOrder("padded8", RandomIds.of(26, 5000));
        assertTrue(TextForm.parse("padded8").encode(100_000_000).compareTo("99999999") < 0);
    }

    private static void checkOrder(String name, long[] ids) {
        TextForm form = TextForm.parse(name);
        for (int i = 1; i < ids.length; i++) {
            int order = form.encode(ids[i - 1]).compareTo(form.encode(ids[i]));
            assertEquals(name + " " + ids[i - 1] + " " + ids[i],
                    Long.compare(ids[i - 1], ids[i]), Integer.signum(order));
        }
    }

    @Test
    public void aTextWithOneOtherCharacterIsRefusedOrThatOfAnotherId() {
        String others = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-+ *~$=.\u0661\u00e9\u0000";
        int read = 0;
        int refused = 0;
        for (String name : FORMS) {
            TextForm form = TextForm.parse(name);
            for (long id : RandomIds.of(63, 2000)) {
                String text = form.encode(id);
                int at = random.nextInt(text.length());
                char other = others.charAt(random.nextInt(others.length()));
                String changed = text.substring(0, at) + other + text.substring(at + 1);
                if (changed.equals(text)) {
                    continue;
                }
                try {
                    long found = form.decode(changed);
                    assertNotEquals(changed, id, found);
                    assertEquals(changed, form.encode(found));
                    read++;
                } catch (IllegalArgumentException wrong) {
                    assertTrue(wrong.getMessage(), wrong.getMessage().length() < 300);
                    refused++;
                }
            }
        }
        assertTrue(read + " " + refused, read > 100 && refused > 100);
    }

    @Test
    public void theCheckSymbolFindsEveryWrongSymbolAndEverySwapOfNeighbours() {
        String symbols = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        TextForm form = TextForm.parse("crockford32");
        for (long id : RandomIds.of(63, 50)) {
            String text = form.encode(id);
            for (int at = 0; at < text.length(); at++) {
                String before = text.substring(0, at);
                for (char symbol : (at == 13 ? symbols + "*~$=U" : symbols).toCharArray()) {
                    if (symbol != text.charAt(at)) {
                        checkRefused(form, before + symbol + text.substring(at + 1));
                    }
                }
                if (at < 13 && text.charAt(at) != text.charAt(at + 1)) {
                    checkRefused(form, before + text.charAt(at + 1) + text.charAt(at) + text.substring(at + 2));
                }
            }
        }
    }

    @Test
    public void textsOfAnyCharactersAreRefusedOrThoseOfAnId() {
        for (int i = 0; i < 20_000; i++) {
            TextForm form = TextForm.parse(FORMS.get(i % FORMS.size()));
            StringBuilder text = new StringBuilder();
            random.ints(random.nextInt(25), 0, i % 3 == 0 ? 0x11000 : 0x80).forEach(text::appendCodePoint);
            try {
                assertEquals(text.toString(), form.encode(form.decode(text.toString())));
            } catch (IllegalArgumentException wrong) {
                assertTrue(wrong.getMessage().startsWith("\""));
            }
        }
    }

    @Test
    public void idsThatAreNoneHaveNoText() {
        for (String name : FORMS) {
            TextForm form = TextForm.parse(name);
            for (long id : new long[] {-1, Long.MIN_VALUE}) {
                assertThrows(name, IllegalArgumentException.class, () -> form.encode(id));
            }
        }
    }

    @Test
    public void namesAreReadAsTheyAreWritten() {
        for (String name : FORMS) {
            assertEquals(name, TextForm.parse(name).toString());
        }
        assertEquals(TextForm.parse("padded"), TextForm.parse("padded19"));
        assertEquals(TextForm.parse("a_padded").hashCode(), TextForm.parse("a_padded19").hashCode());
        assertNotEquals(TextForm.parse("padded"), TextForm.parse("padded18"));
        String longest = "a".repeat(63);
        assertEquals(longest + "_17", TextForm.parse(longest + "_decimal").encode(17));
        for (String wrong : List.of("", "base63", "Base62", "base62 ", "padded0", "padded01", "padded20", "padded-1",
                "_base62", "Ord_base62", "ord__base62", "_ord_base62", "ord1_base62", "ord_", "ord_ord", "uuid7",
                "dated@UTC", "public", longest + "a_base62")) {
            assertThrows(wrong, IllegalArgumentException.class, () -> TextForm.parse(wrong));
        }
    }

    @Test
    public void anErrorNamesTheTextTheFirstWrongCharacterAndTheRemedy() {
        checkMessage("base62", "0000000000-", "\"0000000000-\": character 11 is \"-\": a letter of a to z or A to Z"
                + " or a digit is expected");
        checkMessage("base62", "00000000000\ud83c\udf43", "\"00000000000\ud83c\udf43\": 12 characters instead of 11");
        checkMessage("base62", "0\ud83c\udf43", "\"0\ud83c\udf43\": character 2 is \"\ud83c\udf43\": a letter");
        checkMessage("base62", "\ud83c\n", "\"\\ud83c\\u000a\": character 1 is \"\\ud83c\": a letter");
        checkMessage("base62", "zzzzzzzzzzz", "\"zzzzzzzzzzz\": the number is above 2^63 - 1");
        checkMessage("base36", "000000000000A", "character 13 is \"A\": write lowercase letters");
        checkMessage("ord_base36", "ord_000000000000", "\"ord_000000000000\": 16 characters instead of 17");
        checkMessage("ord_base62", "Ord_0000000000H", "\"Ord_0000000000H\": it has to begin with \"ord_\"");
        checkMessage("crockford32", "00000000000Lo1", "character 12 is \"L\": write the digit 1");
        checkMessage("crockford32", "00000000000o10", "character 12 is \"o\": write the digit 0");
        checkMessage("crockford32", "00000000000k10", "character 12 is \"k\": write capital letters");
        checkMessage("crockford32", "00000000000U10", "character 12 is \"U\": a digit or a capital letter other than");
        checkMessage("crockford32", "000000000000HG", "the check symbol is \"G\", but \"H\" belongs to this number");
        checkMessage("crockford32", "000000000000H", "13 characters instead of 14");
        checkMessage("crockford32", "0000000000000\ud83c\udf43", "character 14 is \"\ud83c\udf43\": a check symbol");
        checkMessage("decimal", "12x4", "\"12x4\": character 3 is \"x\": a decimal digit is expected");
        checkMessage("decimal", "", "\"\": 0 digits instead of at least 1");
        checkMessage("ord_decimal", "ord_01", "character 5 is \"0\": it is one zero too many");
        checkMessage("padded8", "0000017", "7 digits instead of at least 8");
        checkMessage("decimal", "9223372036854775808", "the number is above 2^63 - 1");
        assertEquals(MAX, TextForm.parse("decimal").decode("9223372036854775807"));
    }

    @Test
    public void aLongTextGivesAShortMessage() {
        String zeros = "0".repeat(1_000_000);
        checkMessage("base62", zeros, "\"" + "0".repeat(80) + "…\": 1000000 characters instead of 11");
        checkMessage("decimal", "1" + zeros, "0…\": the number is above 2^63 - 1");
    }

    private static void checkMessage(String name, String text, String message) {
        String found = checkRefused(TextForm.parse(name), text).getMessage();
        assertTrue(found, found.contains(message));
    }

    private static IllegalArgumentException checkRefused(TextForm form, String text) {
        return assertThrows(text, IllegalArgumentException.class, () -> form.decode(text));
    }
}
