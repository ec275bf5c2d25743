package leafd.client.form;

/** Says what is wrong with a text: the text, the first wrong character, and what to write instead. */
final class Wrong {
    /** Of a longer text a message shows only the beginning: anyone may have sent it. */
    private static final int LONGEST_QUOTE = 80;

    private Wrong() {}

    static IllegalArgumentException text(String text, String why) {
        return new IllegalArgumentException(quoted(text) + ": " + why);
    }

    /** The character at an index, which the message counts from 1. */
    static IllegalArgumentException character(String text, int at, String hint) {
        String found = Character.toString(text.codePointAt(at));
        return text(text, "character " + (at + 1) + " is " + quoted(found) + ": " + hint);
    }

    static IllegalArgumentException length(String text, int expected) {
        return text(text, text.codePointCount(0, text.length()) + " characters instead of " + expected);
    }

    static IllegalArgumentException number(long id) {
        return new IllegalArgumentException(id + " is not between 0 and 2^63 - 1, so it is no ID of leafd");
    }

    /** In quotation marks, without line breaks and other characters that would spoil a log. */
    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        boolean isLong = text.codePointCount(0, text.length()) > LONGEST_QUOTE;
        text.codePoints().limit(LONGEST_QUOTE).forEach(c -> {
            if (Character.isISOControl(c) || Character.getType(c) == Character.SURROGATE) {
                quoted.append(String.format("\\u%04x", c));
            } else {
                quoted.appendCodePoint(c);
            }
        });
        return quoted.append(isLong ? "…\"" : "\"").toString();
    }
}
