package leafd.client.form;

import java.util.Arrays;

/** Symbols in the order of ASCII. Every number has the same count of them, so texts sort as the numbers do. */
enum Alphabet {
    BASE62("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11) {
        @Override
        String hint(int found) {
            return "a letter of a to z or A to Z or a digit is expected";
        }
    },
    BASE36("0123456789abcdefghijklmnopqrstuvwxyz", 13) {
        @Override
        String hint(int found) {
            return found >= 'A' && found <= 'Z'
                    ? "write lowercase letters"
                    : "a letter of a to z or a digit is expected";
        }
    },
    CROCKFORD32("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13) {
        @Override
        String hint(int found) {
            return switch (found) {
                case 'I', 'L', 'i', 'l' -> "write the digit 1";
                case 'O', 'o' -> "write the digit 0";
                default -> found >= 'a' && found <= 'z' && found != 'u'
                        ? "write capital letters"
                        : "a digit or a capital letter other than I, L, O and U is expected";
            };
        }
    };

    /** How many symbols a number has. */
    final int width;
    private final String symbols;
    private final byte[] values = new byte[128];

    Alphabet(String symbols, int width) {
        this.symbols = symbols;
        this.width = width;
        Arrays.fill(values, (byte) -1);
        for (int i = 0; i < symbols.length(); i++) {
            values[symbols.charAt(i)] = (byte) i;
        }
    }

    /** What to write instead of a character that is no symbol. */
    abstract String hint(int found);

    String write(long id) {
        char[] text = new char[width];
        long left = id;
        for (int i = width - 1; i >= 0; i--) {
            text[i] = symbols.charAt((int) (left % symbols.length()));
            left /= symbols.length();
        }
        return new String(text);
    }

    /** Reads the symbols of {@code text} after a prefix, and nothing that follows them. */
    long read(String text, int before) {
        int radix = symbols.length();
        int end = Math.min(text.length(), before + width);
        long id = 0;
        boolean isAbove = false;
        for (int at = before; at < end; at++) {
            char symbol = text.charAt(at);
            int value = symbol < values.length ? values[symbol] : -1;
            if (value < 0) {
                throw Wrong.character(text, at, hint(symbol));
            }
            isAbove |= id > (Long.MAX_VALUE - value) / radix;
            id = id * radix + value;
        }
        if (isAbove) {
            throw Wrong.text(text, Decimal.ABOVE);
        }
        return id;
    }
}
