package leafd.client.form;

/** Decimal digits, with zeros in front up to a width. */
final class Decimal {
    /** What is wrong with a text of a number that is no {@code long}. */
    static final String ABOVE = "the number is above 2^63 - 1, so it is no ID of leafd";

    /** Digits of 2^63 - 1. */
    static final int MOST_DIGITS = 19;

    private Decimal() {}

    static String write(long id, int width) {
        String digits = Long.toString(id);
        return "0".repeat(Math.max(0, width - digits.length())) + digits;
    }

    /** Reads at least {@code width} digits after a prefix; more only if the number needs them. */
    static long read(String text, int before, int width) {
        checkDigits(text, before, text.length());
        int digits = text.length() - before;
        if (digits < width) {
            throw Wrong.text(text, digits + " digits instead of at least " + width);
        }
        if (digits > width && text.charAt(before) == '0') {
            throw Wrong.character(text, before, "it is one zero too many");
        }
        long id = 0;
        for (int at = before; at < text.length(); at++) {
            int digit = text.charAt(at) - '0';
            if (id > (Long.MAX_VALUE - digit) / 10) {
                throw Wrong.text(text, ABOVE);
            }
            id = id * 10 + digit;
        }
        return id;
    }

    /** {@code Character.isDigit} would take the digits of every script. */
    static void checkDigits(String text, int from, int to) {
        for (int at = from; at < to; at++) {
            if (text.charAt(at) < '0' || text.charAt(at) > '9') {
                throw Wrong.character(text, at, "a decimal digit is expected");
            }
        }
    }
}
