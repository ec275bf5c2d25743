package leafd.client.form;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A form of the number alone: {@code decimal}, {@code base62}, {@code base36}, {@code crockford32}, or {@code padded}
 * with zeros, each with an optional prefix.
 *
 * <p>Texts of all forms but {@code decimal} have one width, and {@link String#compareTo} orders them as the numbers.
 * A number with more digits than {@code padded8} has gets them, and then sorts no longer with the others.
 *
 * <pre>{@code
 * TextForm form = TextForm.parse("ord_base62");
 * form.encode(17); // "ord_0000000000H"
 * form.decode("ord_0000000000H"); // 17
 * }</pre>
 */
public final class TextForm {
    private static final Pattern PREFIX = Pattern.compile("[a-z](?:[a-z_]{0,61}[a-z])?");
    private static final Pattern PADDED = Pattern.compile("padded([1-9]|1[0-9])?");
    /** Crockford's check symbols: the number modulo 37. */
    private static final String CHECKS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U";

    /** With its underscore, or empty. */
    private final String prefix;
    private final String name;
    /** Null for decimal digits. */
    private final Alphabet alphabet;
    /** How many symbols, or at least how many digits; without prefix and check symbol. */
    private final int width;

    private TextForm(String prefix, String name, Alphabet alphabet, int width) {
        this.prefix = prefix;
        this.name = name;
        this.alphabet = alphabet;
        this.width = width;
    }

    /**
     * Reads the name of a form: {@code decimal}, {@code base62}, {@code base36}, {@code crockford32}, {@code padded}
     * (to 19 digits) or {@code padded1} to {@code padded19}. A prefix stands before it with an underscore, as in
     * {@code line_item_base62}: 1 to 63 lowercase letters and underscores, a letter first and last.
     *
     * @param form the name
     * @return the form
     * @throws IllegalArgumentException if there is no such form, or the prefix cannot be one
     */
    public static TextForm parse(String form) {
        int at = form.lastIndexOf('_') + 1;
        if (at > 0 && !PREFIX.matcher(form.substring(0, at - 1)).matches()) {
            throw new IllegalArgumentException("form " + Wrong.quoted(form) + ": a prefix is 1 to 63 lowercase letters"
                    + " and underscores, and begins and ends with a letter");
        }
        String prefix = form.substring(0, at);
        String name = form.substring(at);
        switch (name) {
            case "decimal":
                return new TextForm(prefix, name, null, 1);
            case "base62":
                return new TextForm(prefix, name, Alphabet.BASE62, Alphabet.BASE62.width);
            case "base36":
                return new TextForm(prefix, name, Alphabet.BASE36, Alphabet.BASE36.width);
            case "crockford32":
                return new TextForm(prefix, name, Alphabet.CROCKFORD32, Alphabet.CROCKFORD32.width);
            default:
                return padded(form, prefix, name);
        }
    }

    private static TextForm padded(String form, String prefix, String name) {
        Matcher padded = PADDED.matcher(name);
        if (padded.matches()) {
            String digits = padded.group(1);
            int width = digits == null ? Decimal.MOST_DIGITS : Integer.parseInt(digits);
            return new TextForm(prefix, "padded" + width, null, width);
        }
        if (name.startsWith("padded")) {
            throw new IllegalArgumentException("form " + Wrong.quoted(form)
                    + ": a number can be padded to 1 to 19 digits, as in padded12");
        }
        throw new IllegalArgumentException("there is no form " + Wrong.quoted(form) + " of the number alone; there are"
                + " decimal, base62, base36, crockford32 and padded[N], each with an optional prefix as in ord_base62."
                + " Snowflakes makes uuid7, uuid8, uuid1 and objectid, Day makes dated, TagHash makes uuid5");
    }

    /**
     * Returns the text of an ID.
     *
     * @param id from 0 to 2^63 - 1
     * @return the text
     * @throws IllegalArgumentException if the ID is negative
     */
    public String encode(long id) {
        if (id < 0) {
            throw Wrong.number(id);
        }
        if (alphabet == null) {
            return prefix + Decimal.write(id, width);
        }
        return prefix + alphabet.write(id) + (hasCheck() ? checkOf(id) : "");
    }

    /**
     * Returns the ID of a text. Only the text that {@link #encode} returns is read.
     *
     * @param text the text, with the prefix
     * @return the ID
     * @throws IllegalArgumentException if no ID has this text; the message names the first wrong character
     */
    public long decode(String text) {
        int before = prefix.length();
        if (!text.startsWith(prefix)) {
            throw Wrong.text(text, "it has to begin with " + Wrong.quoted(prefix));
        }
        if (alphabet == null) {
            return Decimal.read(text, before, width);
        }
        long id = alphabet.read(text, before);
        int end = before + width;
        if (hasCheck() && text.length() > end && CHECKS.indexOf(text.charAt(end)) < 0) {
            throw Wrong.character(text, end, "a check symbol is expected: a digit, a capital letter other than I, L"
                    + " and O, or one of * ~ $ =");
        }
        int length = end + (hasCheck() ? 1 : 0);
        if (text.length() != length) {
            throw Wrong.length(text, length);
        }
        if (hasCheck() && text.charAt(end) != checkOf(id).charAt(0)) {
            throw Wrong.text(text, "the check symbol is " + Wrong.quoted(text.substring(end)) + ", but "
                    + Wrong.quoted(checkOf(id)) + " belongs to this number: something is mistyped");
        }
        return id;
    }

    private boolean hasCheck() {
        return alphabet == Alphabet.CROCKFORD32;
    }

    private static String checkOf(long id) {
        int at = (int) (id % CHECKS.length());
        return CHECKS.substring(at, at + 1);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TextForm && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
        return toString().hashCode();
    }

    /** Writes the name that {@link #parse} reads. */
    @Override
    public String toString() {
        return prefix + name;
    }
}
