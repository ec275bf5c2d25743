package leafd.client.form;

/** Lowercase hexadecimal digits. {@code java.util.HexFormat} would need Java 17. */
final class Hex {
    private static final String DIGITS = "0123456789abcdef";

    private Hex() {}

    /** The lowest {@code 4 * count} bits. */
    static String write(long bits, int count) {
        char[] text = new char[count];
        for (int i = 0; i < count; i++) {
            text[i] = DIGITS.charAt((int) (bits >>> 4 * (count - 1 - i)) & 15);
        }
        return new String(text);
    }

    /** The bits of digits that were checked. */
    static long read(String text, int from, int to) {
        return Long.parseUnsignedLong(text, from, to, 16);
    }

    /** Refuses what is not of a shape such as {@code xx-x}: x stands for a digit, a hyphen for itself. */
    static void check(String text, String shape) {
        int end = Math.min(text.length(), shape.length());
        for (int at = 0; at < end; at++) {
            char found = text.charAt(at);
            if (shape.charAt(at) == '-') {
                if (found != '-') {
                    throw Wrong.character(text, at, "a hyphen is expected");
                }
            } else if (DIGITS.indexOf(found) < 0) {
                throw Wrong.character(text, at, found >= 'A' && found <= 'F'
                        ? "write lowercase letters"
                        : "a hexadecimal digit is expected");
            }
        }
        if (text.length() != shape.length()) {
            throw Wrong.length(text, shape.length());
        }
    }
}
